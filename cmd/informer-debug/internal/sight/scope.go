package sight

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/object"
)

// Scope describes an informer's objects, as derived from its name.
type Scope struct {
	Resource  object.GVR // as returned by ParseResourceArg
	Namespace string     // empty for all
	labels    string
	fields    string
}

// Scopes returns the scope of each of an informer's lists. There may be one per namespace. It returns an
// error if the program chose a name that does not describe the scope.
func Scopes(i *debug.Informer) (all []Scope, err error) {
	names := []string{i.Reflector.Resource}
	if len(i.Namespaces) > 0 {
		names = nil
		for _, n := range i.Namespaces {
			names = append(names, n.Resource)
		}
	}
	for _, name := range names {
		one, err := scopeOf(name)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// scopeOf parses a name such as "pods in namespace shop with labels app=web with fields a=b".
func scopeOf(name string) (s Scope, err error) {
	rest, selected, _ := strings.Cut(name, " with fields ")
	s.fields = selected
	rest, s.labels, _ = strings.Cut(rest, " with labels ")
	rest, s.Namespace, _ = strings.Cut(rest, " in namespace ")
	if s.Resource, err = object.ParseResourceArg(rest); err != nil || strings.ContainsAny(s.Namespace, " ") {
		return s, fmt.Errorf("informer %q cannot be compared: its name was chosen by the program or the source, and does not describe its objects", name)
	}
	return s, nil
}

// Within narrows a scope to a namespace. It returns false if nothing is left.
func (s Scope) Within(namespace string) (Scope, bool) {
	if namespace == "" || s.Namespace == namespace {
		return s, true
	}
	left := s.Namespace == ""
	s.Namespace = namespace
	return s, left
}

// Selector returns the scope's selectors as text, or "" if all objects are selected.
func (s Scope) Selector() string { return strings.Trim(s.labels+" "+s.fields, " ") }

// LeavesOut explains why the scope does not select an object. It returns "" if the scope does or may, because
// field selectors are not evaluated.
func (s Scope) LeavesOut(o metav1.Object) string {
	if s.Namespace != "" && s.Namespace != o.GetNamespace() {
		return "its namespace is " + o.GetNamespace()
	}
	if selected, err := labels.Parse(s.labels); err == nil && !selected.Matches(labels.Set(o.GetLabels())) {
		return "its labels do not match " + s.labels
	}
	return ""
}

// OfFields returns the field selector as text, or "" if there is none.
func (s Scope) OfFields() string { return s.fields }

// List returns options that list the scope's objects, or only the one with the given name if it is not
// empty.
func (s Scope) List(name string) metav1.ListOptions {
	opts := metav1.ListOptions{LabelSelector: s.labels, FieldSelector: s.fields, Limit: 500}
	if name == "" {
		return opts
	}
	if one := fields.OneTermEqualSelector("metadata.name", name).String(); s.fields == "" {
		opts.FieldSelector = one
	} else {
		opts.FieldSelector += "," + one
	}
	return opts
}

// Resource returns the resource in an informer's name, such as "pods" for "pods in namespace shop".
func Resource(informer string) string {
	resource, _, _ := strings.Cut(informer, " ")
	return resource
}

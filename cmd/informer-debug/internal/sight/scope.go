package sight

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/object"
)

// Scope is which objects an informer has, as its name tells.
type Scope struct {
	Resource  object.GVR // as ParseResourceArg reads it
	Namespace string     // empty for all
	labels    string
	fields    string
}

// Scopes reads the scope of each list of an informer: there are several where each
// namespace has its own. It fails where a name of the program's own says nothing.
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

// scopeOf reads a name such as "pods in namespace shop with labels app=web with fields a=b".
func scopeOf(name string) (s Scope, err error) {
	rest, selected, _ := strings.Cut(name, " with fields ")
	s.fields = selected
	rest, s.labels, _ = strings.Cut(rest, " with labels ")
	rest, s.Namespace, _ = strings.Cut(rest, " in namespace ")
	if s.Resource, err = object.ParseResourceArg(rest); err != nil || strings.ContainsAny(s.Namespace, " ") {
		return s, fmt.Errorf("the name of informer %q does not say which objects it has, since the program chose it or the source: such an informer cannot be compared", name)
	}
	return s, nil
}

// Within narrows a scope to a namespace. It reports whether anything is left.
func (s Scope) Within(namespace string) (Scope, bool) {
	if namespace == "" || s.Namespace == namespace {
		return s, true
	}
	left := s.Namespace == ""
	s.Namespace = namespace
	return s, left
}

// Selector is what the scope's objects have to match, as text; empty if they are all.
func (s Scope) Selector() string { return strings.Trim(s.labels+" "+s.fields, " ") }

// List asks for the objects of the scope; of the one called name, unless that is empty.
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

// Resource is the resource in an informer's name, behind which there may follow "in
// namespace shop".
func Resource(informer string) string {
	resource, _, _ := strings.Cut(informer, " ")
	return resource
}

package webhook

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/scheme"
)

// anything matches any group, version or kind, as "*" does in the rules of a webhook configuration.
const anything = "*"

// wrongKind is the error for a review, or an object in it, of a kind that the handler does not accept.
type wrongKind struct{ error }

func (e wrongKind) Unwrap() error { return e.error }

// wrong logs the first review of the wrong kind as a warning. Since anyone may send more of them, the rest
// are only logged at debug level, like all rejected requests.
type wrong struct{ once sync.Once }

func (w *wrong) warn(c *call, why error, about ...any) {
	if _, ok := errors.AsType[wrongKind](why); ok {
		w.once.Do(func() { c.log.Warn("rejected the first review of the wrong kind", append(about, "reason", why)...) })
	}
}

// kinds contains the kinds accepted by an admission handler.
type kinds struct {
	all []object.GVK
	wrong
}

// mustHaveKinds returns the kinds for a handler whose objects have the Go type t: the named kinds, or else
// those registered for t in k8s.io/api. If there are none, it panics, and the message includes the line
// that called the exported function.
func mustHaveKinds(t reflect.Type, named []object.GVK) *kinds {
	all, why := kindsOf(t, named)
	if why != "" {
		panic(fmt.Sprintf("webhook: %s: %s", failure.Place(2), why))
	}
	return &kinds{all: all}
}

// kindsOf returns the kinds for a handler, or the reason why they cannot be determined.
func kindsOf(t reflect.Type, named []object.GVK) (all []object.GVK, why string) {
	for _, kind := range named {
		switch wild := slices.Contains([]string{kind.Group, kind.Version, kind.Kind}, anything); {
		case kind.Version == "" || kind.Kind == "":
			return nil, fmt.Sprintf("the kind %q lacks a version or a kind", kind)
		case wild && !isUntyped(t):
			return nil, fmt.Sprintf("a handler for %v cannot accept any kind: list each one, or use *unstructured.Unstructured", t)
		}
	}
	switch {
	case len(named) > 0:
		return slices.Clone(named), ""
	case isUntyped(t):
		return nil, fmt.Sprintf(`%v may be of any kind: pass the handler's kinds, such as corev1.SchemeGroupVersion.WithKind("Pod")`, t)
	}
	all, _, err := scheme.New().ObjectKinds(reflect.New(t.Elem()).Interface().(runtime.Object))
	if err != nil {
		return nil, fmt.Sprintf("%v is not a type in k8s.io/api: pass its kind, such as v1.GroupVersion.WithKind(%q)", t, t.Elem().Name())
	}
	return all, ""
}

// mustHaveNames returns the kinds, without versions, for a conversion with hub type t: the named kinds,
// or else the type's name, as in runtime.Scheme.AddKnownTypes. Like mustHaveKinds, it panics if there
// are none.
func mustHaveNames(t reflect.Type, named []string) []string {
	switch {
	case slices.Contains(named, ""):
		panic(fmt.Sprintf("webhook: %s: a kind is empty", failure.Place(2)))
	case len(named) > 0:
		return slices.Clone(named)
	case isUntyped(t):
		panic(fmt.Sprintf("webhook: %s: %v may be of any kind: pass the conversion's kinds, such as %q", failure.Place(2), t, "Memcached"))
	}
	return []string{t.Elem().Name()}
}

// isUntyped reports whether a Go type can hold objects of any kind.
func isUntyped(t reflect.Type) bool {
	return t == reflect.TypeFor[*unstructured.Unstructured]() || t == reflect.TypeFor[*metav1.PartialObjectMetadata]()
}

// check fails if a request is for a kind that the handler does not accept, which means that the webhook
// configuration is wrong.
func (k *kinds) check(path string, r *admissionv1.AdmissionRequest) error {
	kind := object.GVK(r.Kind)
	if slices.ContainsFunc(k.all, func(of object.GVK) bool { return covers(of, kind) }) {
		return nil
	}
	return wrongKind{fmt.Errorf("the webhook at %s is for %s but received %s: change the rules or the path in the webhook configuration",
		path, strings.Join(namesOf(k.all), ", "), quoted(kind))}
}

// covers reports whether kind matches wanted, whose fields may be "*".
func covers(wanted, kind object.GVK) bool {
	same := func(want, got string) bool { return want == anything || want == got }
	return kind.Version != "" && kind.Kind != "" && same(wanted.Group, kind.Group) && same(wanted.Version, kind.Version) && same(wanted.Kind, kind.Kind)
}

// namesOf returns the kinds as written in manifests, such as "apps/v1 Deployment".
func namesOf(kinds []object.GVK) (names []string) {
	for _, kind := range kinds {
		names = append(names, kind.GroupVersion().String()+" "+kind.Kind)
	}
	return names
}

// quoted returns kind, which is untrusted, quoted and truncated.
func quoted(kind object.GVK) string {
	if kind.Empty() {
		return "none"
	}
	return fmt.Sprintf("%.100q", namesOf([]object.GVK{kind})[0])
}

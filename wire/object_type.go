package wire

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire/internal/fault"
	"github.com/millrace-dev/millrace/wire/internal/guard"
	"github.com/millrace-dev/millrace/wire/internal/memory"
	"github.com/millrace-dev/millrace/wire/internal/protobuf"
	"github.com/millrace-dev/millrace/wire/internal/selection"
)

// form determines how much of an object is decoded, and what it is decoded into.
type form int

const (
	formTyped        form = iota // an API type; TypeMeta is left empty
	formUnstructured             // a map; APIVersion and kind are part of it
	formMetadata                 // only metadata, with the real kind
)

// objectType describes a decoder's objects: which Go type to allocate, which kinds to accept, and
// which fields a finished object must have. It is immutable.
type objectType struct {
	kind       object.GVK
	apiVersion string
	form       form
	goType     reflect.Type    // the pointer's element type
	guard      *guard.Guard    // for the reference
	fields     *selection.Tree // selected fields; nil for all
}

func newObjectType(opts Options) (*objectType, error) {
	t := &objectType{kind: opts.Kind, goType: reflect.TypeFor[unstructured.Unstructured]()}
	declared := opts.Type
	if declared == nil {
		declared = reflect.TypeFor[object.Object]()
	}
	switch {
	case declared.Kind() == reflect.Pointer:
		t.goType = declared.Elem()
	case declared.Kind() != reflect.Interface:
		return nil, fmt.Errorf("%w: %v is neither a pointer nor an interface", ErrKind, declared)
	case opts.Scheme != nil && opts.Scheme.Recognizes(opts.Kind):
		obj, err := opts.Scheme.New(opts.Kind)
		if err != nil {
			return nil, fmt.Errorf("new %s: %w", opts.Kind, err)
		}
		t.goType = reflect.TypeOf(obj).Elem()
	}
	made := reflect.PointerTo(t.goType)
	if !made.AssignableTo(declared) || !made.Implements(reflect.TypeFor[object.Object]()) {
		return nil, fmt.Errorf("%w: %v, the Go type of %s, is not a %v", ErrKind, made, opts.Kind, declared)
	}
	switch t.goType {
	case reflect.TypeFor[unstructured.Unstructured]():
		t.form = formUnstructured
	case reflect.TypeFor[metav1.PartialObjectMetadata]():
		t.form = formMetadata
	}
	if t.kind.Empty() {
		if err := t.kindFromScheme(opts); err != nil {
			return nil, err
		}
	}
	if t.kind.Version == "" || t.kind.Kind == "" {
		return nil, fmt.Errorf("%w: %q lacks a version or a kind", ErrKind, t.kind)
	}
	if err := t.checkScheme(opts.Scheme); err != nil {
		return nil, err
	}
	t.apiVersion = t.kind.GroupVersion().String()
	t.guard = guard.Of(t.goType)
	return t, t.setFields(opts.Keep)
}

func (t *objectType) setFields(f Fields) error {
	t.fields = f.selection()
	if t.form == formUnstructured {
		return selection.CheckUntyped(f.split())
	}
	return selection.Check(f.split(), t.goType)
}

// withoutSelection returns t with all fields selected.
func (t *objectType) withoutSelection() *objectType {
	w := *t
	w.fields = nil
	return &w
}

func (t *objectType) kindFromScheme(opts Options) error {
	if t.form != formTyped || opts.Scheme == nil {
		return fmt.Errorf("%w: set Options.Kind, the kind of %v cannot be inferred", ErrKind, t.goType)
	}
	kinds, _, err := opts.Scheme.ObjectKinds(t.new())
	if err != nil {
		return fmt.Errorf("%w: %v is not in the scheme: register it or set Options.Kind", ErrKind, t.goType)
	}
	if len(kinds) > 1 {
		return fmt.Errorf("%w: the scheme has %v under several kinds (%v): set Options.Kind", ErrKind, t.goType, kinds)
	}
	t.kind = kinds[0]
	return nil
}

// checkScheme returns an error if the Go type is registered in the scheme only under other kinds, because
// decoding into it would then misinterpret the bytes. It is fine if the type belongs to a different
// version of the same kind.
func (t *objectType) checkScheme(scheme *runtime.Scheme) error {
	if t.form != formTyped || scheme == nil {
		return nil
	}
	kinds, _, err := scheme.ObjectKinds(t.new())
	if err != nil || slices.ContainsFunc(kinds, func(known object.GVK) bool { return known.Kind == t.kind.Kind }) {
		return nil // an unregistered type may be of any kind
	}
	return fmt.Errorf("%w: the scheme has %v as %s %s, want %s %s: use the Go type of the kind", ErrKind, reflect.PointerTo(t.goType), kinds[0].GroupVersion(), kinds[0].Kind, t.kind.GroupVersion(), t.kind.Kind)
}

func (t *objectType) new() object.Object {
	return memory.New(t.goType).Interface().(object.Object)
}

// kindToSet returns the kind to set in a decoded object, even if its bytes do not contain it.
func (t *objectType) kindToSet() object.GVK {
	if t.form == formTyped {
		return object.GVK{}
	}
	return t.kind
}

func (t *objectType) isStatus() bool { return isStatus(t.apiVersion, t.kind.Kind) }

// isStatus reports whether this is the kind of metav1.Status.
func isStatus(apiVersion, kind string) bool { return apiVersion == "v1" && kind == "Status" }

// isMetadata reports whether this is a kind that servers use for metadata-only objects.
func isMetadata(apiVersion, kind, suffix string) bool {
	return kind == "PartialObjectMetadata"+suffix && (apiVersion == "meta.k8s.io/v1" || apiVersion == "meta.k8s.io/v1beta1")
}

// matches reports whether apiVersion and kind identify the expected kind.
func (t *objectType) matches(apiVersion, kind string) bool {
	return apiVersion == t.apiVersion && kind == t.kind.Kind
}

// checkKind fails if an object's apiVersion or kind differs from the expected one. Empty fields
// match.
func (t *objectType) checkKind(apiVersion, kind string) error {
	if t.form == formMetadata && isMetadata(apiVersion, kind, "") {
		return nil
	}
	if t.matches(cmp.Or(apiVersion, t.apiVersion), cmp.Or(kind, t.kind.Kind)) {
		return nil
	}
	return t.wrongKind(apiVersion, kind, "")
}

// checkNamed is like checkKind, but for an object that must specify its kind.
func (t *objectType) checkNamed(apiVersion, kind string) error {
	if apiVersion == "" || kind == "" {
		return t.wrongKind(apiVersion, kind, "")
	}
	return t.checkKind(apiVersion, kind)
}

// checkListKind is like checkKind, but for a list. itemsLackKind indicates that some items do not
// specify their kind or that there are no items; in that case the list's kind must match. A
// CustomResourceDefinition may choose any kind for its list; Kubernetes itself always appends
// "List".
func (t *objectType) checkListKind(apiVersion, kind string, itemsLackKind bool) error {
	switch {
	case t.form == formMetadata && isMetadata(apiVersion, kind, "List"):
		return nil
	case apiVersion != t.apiVersion || kind == "":
	case kind == t.kind.Kind+"List":
		return nil
	case !itemsLackKind && !isBuiltinGroup(t.kind.Group) && kind != t.kind.Kind:
		return nil
	}
	return t.wrongKind(apiVersion, kind, "List")
}

// isBuiltinGroup reports whether a group is part of k8s.io/api, regardless of its objects' Go types. Groups
// of custom resources contain a dot.
func isBuiltinGroup(group string) bool {
	switch name, ok := strings.CutSuffix(group, ".k8s.io"); {
	case ok:
		return slices.Contains(builtinGroups, name)
	default:
		return !strings.Contains(group, ".")
	}
}

// builtinGroups lists the groups in k8s.io/api whose names end in ".k8s.io", without that suffix.
var builtinGroups = []string{
	"admission", "admissionregistration", "apidiscovery", "authentication", "authorization", "certificates",
	"coordination", "discovery", "events", "flowcontrol.apiserver", "imagepolicy", "internal.apiserver", "networking",
	"node", "rbac.authorization", "resource", "scheduling", "storage", "storagemigration",
}

// wrongKind returns the error for an object of a different kind. suffix is "List" or empty.
func (t *objectType) wrongKind(apiVersion, kind, suffix string) error {
	want := t.kind.Kind + suffix
	if apiVersion == "" && kind == "" {
		return fmt.Errorf("%w: the body specifies no kind, want %s %s", ErrKind, t.apiVersion, want)
	}
	return fmt.Errorf("%w: got %q %q, want %s %s", ErrKind, fault.Excerpt(apiVersion), fault.Excerpt(kind), t.apiVersion, want)
}

// finish sets the TypeMeta as required by the object's form. It fails if needName is set and the object has
// no name.
func (t *objectType) finish(obj object.Object, needName bool) error {
	switch t.form {
	case formTyped:
		obj.GetObjectKind().SetGroupVersionKind(object.GVK{})
	case formUnstructured:
		// Most objects already specify their kind; avoid writing to the map, which is slow.
		if u := obj.(*unstructured.Unstructured); u.GetAPIVersion() != t.apiVersion || u.GetKind() != t.kind.Kind {
			u.SetGroupVersionKind(t.kind)
		}
	default:
		obj.GetObjectKind().SetGroupVersionKind(t.kind)
	}
	if needName && obj.GetName() == "" {
		return ErrNoName
	}
	return nil
}

// project removes an object's unselected fields. It is the definition of which fields decoders omit. The
// object must not share values with other objects, because project modifies it.
func (t *objectType) project(obj object.Object) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		selection.PruneUntyped(u.Object, t.fields)
		return
	}
	selection.Prune(reflect.ValueOf(obj), t.fields)
}

// SupportsProtobuf reports whether [NewDecoder] can decode the Go type in opts from protobuf:
// the type has a generated Unmarshal method and is not recursive. Generated code recurses as deep as its
// input demands. For a recursive type, a few megabytes of hostile input could overflow the stack, which
// no program can recover from. Decode such types from JSON.
func SupportsProtobuf(opts Options) bool {
	t, err := newObjectType(opts)
	return err == nil && protobuf.UnsupportedReason(t.goType) == ""
}

package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/discovery"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// Resource reads, watches and writes the objects of one kind. The first verb finds
// out where the kind is served. The places of the built-in kinds are known; discovery
// is asked about them only after the server answered 404.
//
// A Resource is immutable and safe for concurrent use. Namespace, Subresource,
// Keep and Choosing return narrower ones, Sharing and Reusing cheaper ones; all of them share
// what was found out.
//
// If the server refuses, a verb fails with apimachinery's *errors.StatusError (test
// it with apierrors.IsNotFound and the like). If the kind is not served, it fails
// with a *source.ResolveError, if the answer cannot be decoded with a *wire.Error,
// and otherwise with the wrapped error of the network.
type Resource[T object.Object] struct {
	client      *Client
	kind        object.GVK
	kindErr     error
	location    *location
	codec       *codec[T]
	namespace   string
	subresource string
	known       wire.Known[T] // nil where every object is decoded

	wanted    func(object.Head) bool // nil where every object is wanted
	selection source.Selection
}

// ResourceFor returns the resource of a Go type that the client's scheme knows
// under one kind, such as *corev1.Pod. If the scheme does not know it, each verb
// fails with a *source.ResolveError that says so. A nil client panics.
func ResourceFor[T object.Object](c *Client) *Resource[T] {
	kind, err := kindOf[T](c)
	return newResource[T](c, kind, err, &location{kind: kind, mapper: c.mapper})
}

// ResourceForKind returns the resource of a kind. T may be the kind's Go type,
// *unstructured.Unstructured, *metav1.PartialObjectMetadata for the metadata
// alone, or object.Object for the Go type that the scheme has for the kind.
func ResourceForKind[T object.Object](c *Client, kind object.GVK) *Resource[T] {
	c.mustExist()
	return newResource[T](c, kind, nil, &location{kind: kind, mapper: c.mapper})
}

// ResourceOf returns the resource of one object: of the kind that it names, else of the
// kind that the client's scheme has for its Go type. So a program reads and writes objects
// of any kind, such as those of a manifest. The answers are of type T; where that is
// object.Object, of the Go type that the scheme has for the kind, which must be there.
func ResourceOf[T object.Object](c *Client, o T) *Resource[T] {
	c.mustExist()
	kind, err := kindOfObject(c, o)
	return newResource[T](c, kind, err, &location{kind: kind, mapper: c.mapper})
}

// kindOfObject returns the kind that an object names, or that of its Go type.
func kindOfObject(c *Client, o object.Object) (object.GVK, error) {
	if v := reflect.ValueOf(o); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return object.GVK{}, errors.New("the object whose kind is wanted is nil")
	}
	if kind := o.GetObjectKind().GroupVersionKind(); kind.Kind != "" && kind.Version != "" {
		return kind, nil
	}
	kinds, _, err := c.scheme.ObjectKinds(o)
	switch {
	case err != nil:
		return object.GVK{}, fmt.Errorf("%T names no kind, and is not registered in the client's scheme: set its apiVersion and kind, or register it", o)
	case len(kinds) > 1:
		return object.GVK{}, fmt.Errorf("%T names no kind, and the client's scheme has it under several (%v): set its apiVersion and kind", o, kinds)
	}
	return kinds[0], nil
}

// ResourceForMapping returns the resource at a place that is known, so that no
// discovery is needed. The place is believed for good, even where the server
// answers 404. For T see ResourceForKind.
func ResourceForMapping[T object.Object](c *Client, m discovery.Mapping) *Resource[T] {
	return newResource[T](c, m.Kind, nil, &location{kind: m.Kind, known: true, mapping: m})
}

// SubresourceFor returns a subresource whose body is of another type than the
// object itself, such as "scale" of type *autoscalingv1.Scale, "eviction" of
// type *policyv1.Eviction, "binding", or "token":
//
//	evictions := rest.SubresourceFor[*policyv1.Eviction](pods, "eviction")
//	_, err := evictions.Create(ctx, &policyv1.Eviction{ObjectMeta: ...}, metav1.CreateOptions{})
//
// The kind of S comes from the scheme. For a subresource of the same type as
// the object, such as "status", see Resource.Subresource.
func SubresourceFor[S, T object.Object](r *Resource[T], name string) *Resource[S] {
	kind, err := kindOf[S](r.client)
	return subresource[S](r, name, kind, err)
}

// SubresourceForKind is SubresourceFor for a type that has no kind of its own
// in the scheme.
func SubresourceForKind[S, T object.Object](r *Resource[T], name string, kind object.GVK) *Resource[S] {
	return subresource[S](r, name, kind, nil)
}

func subresource[S, T object.Object](r *Resource[T], name string, kind object.GVK, err error) *Resource[S] {
	s := newResource[S](r.client, kind, errors.Join(r.kindErr, err), r.location)
	s.namespace, s.subresource = r.namespace, name
	return s
}

func newResource[T object.Object](c *Client, kind object.GVK, err error, at *location) *Resource[T] {
	c.mustExist()
	r := &Resource[T]{client: c, kind: kind, kindErr: err, location: at}
	if err == nil {
		r.codec = newCodec[T](wire.Options{Scheme: c.scheme, Kind: kind}, c.cbor)
	}
	return r
}

// kindOf returns the kind of a Go type by the client's scheme.
func kindOf[T object.Object](c *Client) (object.GVK, error) {
	c.mustExist()
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Pointer || t == reflect.TypeFor[*unstructured.Unstructured]() || t == reflect.TypeFor[*metav1.PartialObjectMetadata]() {
		return object.GVK{}, fmt.Errorf("the kind of %v cannot be told from the type: use ResourceForKind or ResourceForMapping, or say it in factory.For", t)
	}
	kinds, _, err := c.scheme.ObjectKinds(reflect.New(t.Elem()).Interface().(T))
	switch {
	case err != nil:
		return object.GVK{}, fmt.Errorf("%v is not registered in the client's scheme: register it, or use ResourceForKind or ResourceForMapping, or say the kind in factory.For", t)
	case len(kinds) > 1:
		return object.GVK{}, fmt.Errorf("the client's scheme has %v under several kinds (%v): use ResourceForKind", t, kinds)
	}
	return kinds[0], nil
}

// Namespace returns the resource within one namespace. List and Watch see that
// namespace alone, and keys and objects without a namespace belong to it. The empty
// namespace means all.
func (r *Resource[T]) Namespace(namespace string) *Resource[T] {
	scoped := *r
	scoped.namespace = namespace
	return &scoped
}

// Subresource returns a subresource whose body has the object's own type, such
// as "status". For others see SubresourceFor.
func (r *Resource[T]) Subresource(name string) *Resource[T] {
	scoped := *r
	scoped.subresource = name
	return &scoped
}

// Keep returns the resource with objects that hold the wanted fields alone. If
// the objects do not have such a field, each verb fails with wire.ErrFields. If
// managed fields are not wanted, the server is asked not to send them; not every
// server can do that.
//
// Update is refused, since a part would replace the whole. With
// wire.WithoutManagedFields alone it is safe, and allowed.
func (r *Resource[T]) Keep(wanted wire.Fields) *Resource[T] {
	return r.decoding(func(opts *wire.Options) { opts.Keep = wanted })
}

// Objects returns the resource with objects of the same Go type in an interface.
func (r *Resource[T]) Objects() *Resource[object.Object] {
	if same, ok := any(r).(*Resource[object.Object]); ok {
		return same
	}
	o := &Resource[object.Object]{
		client: r.client, kind: r.kind, kindErr: r.kindErr, location: r.location, namespace: r.namespace, subresource: r.subresource,
	}
	if r.codec != nil {
		opts := r.codec.opts
		opts.Type = goType[T](opts)
		o.codec = newCodec[object.Object](opts, r.codec.cbor)
	}
	return o
}

// Sharing returns the resource with lists and watches whose objects share equal
// parts with all others of the same pool. Such objects must not be changed. The
// other verbs still return objects that belong to the caller. A nil pool shares
// nothing.
func (r *Resource[T]) Sharing(pool *wire.Pool) *Resource[T] {
	return r.decoding(func(opts *wire.Options) { opts.Pool = pool })
}

// SharedParts implements source.Sharer.
func (r *Resource[T]) SharedParts() *wire.Pool {
	if r.codec == nil {
		return nil
	}
	return r.codec.opts.Pool
}

// decoding returns the resource with a change to how its objects are decoded.
func (r *Resource[T]) decoding(change func(*wire.Options)) *Resource[T] {
	changed := *r
	if r.codec != nil {
		opts := r.codec.opts
		change(&opts)
		changed.codec = newCodec[T](opts, r.codec.cbor)
	}
	return &changed
}

// Reusing implements source.Reuser.
func (r *Resource[T]) Reusing(known wire.Known[T]) source.ListerWatcher[T] {
	keeping := *r
	keeping.known = known
	return &keeping
}

// Choosing implements source.Chooser: what is not wanted is not decoded.
func (r *Resource[T]) Choosing(wanted func(object.Head) bool) source.ListerWatcher[T] {
	choosing := *r
	choosing.wanted = source.Both(choosing.wanted, wanted)
	return &choosing
}

// Selecting implements source.Selector. A server, or a proxy, that refuses the selector is
// asked again without it.
func (r *Resource[T]) Selecting(s source.Selection) source.ListerWatcher[T] {
	selecting := *r
	selecting.selection = s
	return &selecting
}

// In implements source.Namespacer; it does not fail.
func (r *Resource[T]) In(namespace string) (source.ListerWatcher[T], error) {
	return r.Namespace(namespace), nil
}

// Client returns the client that the resource was made with.
func (r *Resource[T]) Client() *Client { return r.client }

// Kind implements source.Kinded: the kind of the objects. It is empty if the Go type does not tell.
func (r *Resource[T]) Kind() object.GVK { return r.kind }

// Mapping returns where the kind is served, and finds it out first if need be. Of a
// built-in kind it may hold the place alone; see discovery.Builtin. It fails with a
// *source.ResolveError.
func (r *Resource[T]) Mapping(ctx context.Context) (discovery.Mapping, error) {
	if r.kindErr != nil {
		return discovery.Mapping{}, &source.ResolveError{Kind: r.kind, Err: r.kindErr}
	}
	return r.location.get(ctx)
}

// String names the resource for messages: "pods", "deployments.apps in
// namespace x", "pods/eviction". Until its place is known, the kind stands for it.
func (r *Resource[T]) String() string {
	name := r.kind.GroupKind().String()
	if m, ok := r.location.peek(); ok {
		name = object.ResourceName(m.Resource)
	} else if r.kind.Empty() {
		name = reflect.TypeFor[T]().String()
	}
	if r.subresource != "" {
		name += "/" + r.subresource
	}
	if r.namespace != "" {
		name += " in namespace " + r.namespace
	}
	return name
}

// describe names an object, or the collection where key is empty.
func (r *Resource[T]) describe(key object.Key) string {
	if key.Name == "" {
		return r.Namespace(key.Namespace).String()
	}
	return r.Namespace("").String() + " " + object.FormatKey(key)
}

// complete puts the scope's namespace into the key of a call that has none, and checks
// that key and resource agree.
func (r *Resource[T]) complete(m discovery.Mapping, c call[T]) (object.Key, error) {
	key := c.key
	name := object.ResourceName(m.Resource)
	switch {
	case !m.Namespaced && r.namespace != "":
		return key, fmt.Errorf("%s are %w, and a namespace was given (%q)", name, source.ErrNotNamespaced, r.namespace)
	case !m.Namespaced && key.Namespace != "":
		return key, fmt.Errorf("%s are %w, and the key %q has a namespace", name, source.ErrNotNamespaced, key)
	case key.Namespace == "":
		key.Namespace = r.namespace
	case r.namespace != "" && key.Namespace != r.namespace:
		return key, fmt.Errorf("the key %q is outside of namespace %q", key, r.namespace)
	}
	if m.Namespaced && key.Namespace == "" && key.Name != "" {
		return key, fmt.Errorf("%s are namespaced, and the key %q has no namespace", name, key.Name)
	}
	if m.Namespaced && key.Namespace == "" && c.method != http.MethodGet {
		// Only a list and a watch go over all namespaces.
		return key, fmt.Errorf("%s are namespaced, and no namespace was given: set that of the object, or use Resource.Namespace", name)
	}
	return key, nil
}

// path returns the escaped path of an object, or of the collection where key
// has no name.
func (r *Resource[T]) path(m discovery.Mapping, key object.Key) (string, error) {
	segments := []string{"apis", m.Resource.Group, m.Resource.Version}
	if m.Resource.Group == "" {
		segments = []string{"api", m.Resource.Version}
	}
	if m.Namespaced && key.Namespace != "" {
		// The server finds nothing in it and says that all is well.
		if len(content.IsDNS1123Label(key.Namespace)) > 0 {
			return "", fmt.Errorf("%.80q cannot be a namespace: want at most 63 of a-z, 0-9 and '-', and no '-' at either end", key.Namespace)
		}
		segments = append(segments, "namespaces", key.Namespace)
	}
	segments = append(segments, m.Resource.Resource)
	if key.Name != "" {
		segments = append(segments, key.Name)
	}
	if r.subresource != "" {
		// Some subresources have a path of their own, such as "proxy/metrics".
		segments = append(segments, strings.Split(r.subresource, "/")...)
	}
	for i, s := range segments {
		if s == "" {
			return "", fmt.Errorf("a segment of the path %q is empty", "/"+strings.Join(segments, "/"))
		}
		if fault := segmentFault(s); fault != "" {
			return "", fmt.Errorf("%q cannot be part of a path: it %s", excerpt(s), fault)
		}
		segments[i] = url.PathEscape(s)
	}
	return "/" + strings.Join(segments, "/"), nil
}

// segmentFault says why the API server would refuse a segment of a path, empty if it
// would not. The rule is IsPathSegmentName of k8s.io/apimachinery, whose package is
// another one in v0.35.
func segmentFault(segment string) string {
	var faults []string
	if segment == "." || segment == ".." {
		faults = append(faults, fmt.Sprintf("may not be '%s'", segment))
	}
	for _, part := range []string{"/", "%"} {
		if strings.Contains(segment, part) {
			faults = append(faults, fmt.Sprintf("may not contain '%s'", part))
		}
	}
	return strings.Join(faults, " and ")
}

package rest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/discovery"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// Resource reads, watches and writes the objects of one kind. The first verb finds
// out where the kind is served. The places of the built-in kinds are known; discovery
// is asked about them only after the server answered 404.
//
// A Resource is immutable and safe for concurrent use. Namespace, Subresource and
// Keep return narrower ones, and Sharing a cheaper one; all of them share what was found
// out.
//
// If the server refuses, a verb fails with apimachinery's *errors.StatusError (test
// it with apierrors.IsNotFound and the like). If the kind is not served, it fails
// with a *source.ResolveError, if the answer cannot be decoded with a *wire.Error,
// and otherwise with the wrapped error of the network.
type Resource[T object.Object] struct {
	_  [0]*T // so that no resource converts to one of another type
	of *resource
}

// resource is a Resource of objects of any type.
type resource struct {
	client      *Client
	declared    reflect.Type // what the caller calls the objects: a pointer or an interface
	kind        object.GVK
	kindErr     error
	location    *location
	codec       *codec
	namespace   string
	subresource string
}

// ResourceFor returns the resource of a Go type that the client's scheme knows
// under one kind, such as *corev1.Pod. If the scheme does not know it, each verb
// fails with a *source.ResolveError that says so. A nil client panics.
func ResourceFor[T object.Object](c *Client) *Resource[T] {
	kind, err := kindOf(c, reflect.TypeFor[T]())
	return &Resource[T]{of: newResource(c, reflect.TypeFor[T](), kind, err, &location{kind: kind, mapper: c.mapper})}
}

// ResourceForKind returns the resource of a kind. T may be the kind's Go type,
// *unstructured.Unstructured, *metav1.PartialObjectMetadata for the metadata
// alone, or object.Object for the Go type that the scheme has for the kind.
func ResourceForKind[T object.Object](c *Client, kind object.GVK) *Resource[T] {
	c.mustExist()
	return &Resource[T]{of: newResource(c, reflect.TypeFor[T](), kind, nil, &location{kind: kind, mapper: c.mapper})}
}

// ResourceForType is ResourceFor or, if kind is not empty, ResourceForKind of a Go type that is known
// only at run time: a pointer, or an interface.
func ResourceForType(c *Client, goType reflect.Type, kind object.GVK) *Resource[object.Object] {
	c.mustExist()
	var err error
	if kind.Empty() {
		kind, err = kindOf(c, goType)
	}
	return &Resource[object.Object]{of: newResource(c, goType, kind, err, &location{kind: kind, mapper: c.mapper})}
}

// ResourceOf returns the resource of one object: of the kind that it names, else of the
// kind that the client's scheme has for its Go type. So a program reads and writes objects
// of any kind, such as those of a manifest. The answers are of type T; where that is
// object.Object, of the Go type that the scheme has for the kind, which must be there.
func ResourceOf[T object.Object](c *Client, o T) *Resource[T] {
	kind, err := c.KindOf(o)
	return &Resource[T]{of: newResource(c, reflect.TypeFor[T](), kind, err, &location{kind: kind, mapper: c.mapper})}
}

// Objects returns the same resource as one whose objects may be of any type; nil for nil. It is a
// function for the reason that sharedinformer.Objects is one.
func Objects[T object.Object](r *Resource[T]) *Resource[object.Object] {
	if r == nil {
		return nil
	}
	return &Resource[object.Object]{of: r.of}
}

// KindOf returns the kind that an object names, or else the kind that the client's scheme
// has for its Go type. It fails if o is nil, and if the scheme has no such type or has it
// under several kinds.
func (c *Client) KindOf(o object.Object) (object.GVK, error) {
	c.mustExist()
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
	return &Resource[T]{of: newResource(c, reflect.TypeFor[T](), m.Kind, nil, &location{kind: m.Kind, known: true, mapping: m})}
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
	kind, err := kindOf(r.of.client, reflect.TypeFor[S]())
	return &Resource[S]{of: r.of.part(name, reflect.TypeFor[S](), kind, err)}
}

// SubresourceForKind is SubresourceFor for a type that has no kind of its own
// in the scheme.
func SubresourceForKind[S, T object.Object](r *Resource[T], name string, kind object.GVK) *Resource[S] {
	return &Resource[S]{of: r.of.part(name, reflect.TypeFor[S](), kind, nil)}
}

// part returns a subresource whose body is of another type.
func (r *resource) part(subresource string, declared reflect.Type, kind object.GVK, err error) *resource {
	s := newResource(r.client, declared, kind, errors.Join(r.kindErr, err), r.location)
	s.namespace, s.subresource = r.namespace, subresource
	return s
}

func newResource(c *Client, declared reflect.Type, kind object.GVK, err error, at *location) *resource {
	c.mustExist()
	r := &resource{client: c, declared: declared, kind: kind, kindErr: err, location: at}
	if err == nil {
		r.codec = newCodec(wire.Options{Scheme: c.scheme, Kind: kind, Type: declared}, c.cbor)
	}
	return r
}

// kindOf returns the kind of a Go type by the client's scheme.
func kindOf(c *Client, t reflect.Type) (object.GVK, error) {
	c.mustExist()
	if t.Kind() != reflect.Pointer || t == reflect.TypeFor[*unstructured.Unstructured]() || t == reflect.TypeFor[*metav1.PartialObjectMetadata]() {
		return object.GVK{}, fmt.Errorf("the kind of %v cannot be told from the type: use ResourceForKind or ResourceForMapping, or say it in factory.For", t)
	}
	kinds, _, err := c.scheme.ObjectKinds(reflect.New(t.Elem()).Interface().(object.Object))
	switch {
	case err != nil:
		return object.GVK{}, fmt.Errorf("%v is not registered in the client's scheme: add it with the AddToScheme of its package to the scheme of the client (manager.Options.Scheme), or use ResourceForKind or ResourceForMapping, or say the kind in factory.For", t)
	case len(kinds) > 1:
		return object.GVK{}, fmt.Errorf("the client's scheme has %v under several kinds (%v): use ResourceForKind", t, kinds)
	}
	return kinds[0], nil
}

// as returns the answer to a verb as one of type T.
func as[T object.Object](o object.Head, err error) (T, error) {
	typed, ok := o.(T)
	if err == nil && !ok {
		err = &source.TypeError{Have: reflect.TypeOf(o), Want: reflect.TypeFor[T]()}
	}
	return typed, err
}

// Namespace returns the resource within one namespace. List and Watch see that
// namespace alone, and keys and objects without a namespace belong to it. The empty
// namespace means all.
func (r *Resource[T]) Namespace(namespace string) *Resource[T] {
	return &Resource[T]{of: r.of.in(namespace)}
}

func (r *resource) in(namespace string) *resource {
	in := *r
	in.namespace = namespace
	return &in
}

// Subresource returns a subresource whose body has the object's own type, such
// as "status". For others see SubresourceFor.
func (r *Resource[T]) Subresource(name string) *Resource[T] {
	named := *r.of
	named.subresource = name
	return &Resource[T]{of: &named}
}

// Keep returns the resource with objects that hold the wanted fields alone. If
// the objects do not have such a field, each verb fails with wire.ErrFields. If
// managed fields are not wanted, the server is asked not to send them; not every
// server can do that.
//
// Update is refused, since a part would replace the whole. With
// wire.WithoutManagedFields alone it is safe, and allowed.
func (r *Resource[T]) Keep(wanted wire.Fields) *Resource[T] {
	return &Resource[T]{of: r.of.decoding(func(opts *wire.Options) { opts.Keep = wanted })}
}

// Source returns what an informer reads the resource by. It does all of a source.Request itself.
func (r *Resource[T]) Source() source.ListerWatcher { return &lister{resource: *r.of} }

// Sharing returns the resource with lists and watches whose objects share equal
// parts with all others of the same pool. Such objects must not be changed. The
// other verbs still return objects that belong to the caller. A nil pool shares
// nothing.
func (r *Resource[T]) Sharing(pool *wire.Pool) *Resource[T] {
	return &Resource[T]{of: r.of.decoding(func(opts *wire.Options) { opts.Pool = pool })}
}

// decoding returns the resource with a change to how its objects are decoded.
func (r *resource) decoding(change func(*wire.Options)) *resource {
	changed := *r
	if r.codec != nil {
		opts := r.codec.opts
		change(&opts)
		changed.codec = newCodec(opts, r.codec.cbor)
	}
	return &changed
}

// Kept returns the fields that the objects have; see Keep.
func (r *Resource[T]) Kept() wire.Fields { return r.of.kept() }

// kept is Resource.Kept.
func (r *resource) kept() wire.Fields {
	if r.codec == nil {
		return wire.Fields{}
	}
	return r.codec.opts.Keep
}

// Get reads one object. It is sent again after 429 and 5xx with a Retry-After, at
// most ten times within 30 seconds, and once if its connection breaks before the answer.
func (r *Resource[T]) Get(ctx context.Context, key object.Key, opts metav1.GetOptions) (T, error) {
	return as[T](r.of.get(ctx, key, opts))
}

// Create creates obj, in its own namespace or that of the resource, and returns it
// as the server has it. obj is not changed. Create is sent again only after 429 with
// a Retry-After, when the server has not begun with it. After any other failure the
// object may have been created.
//
// On a subresource such as "eviction", the name of obj says which object is meant. If
// the server answers with a mere success instead of an object, the result is obj
// itself.
func (r *Resource[T]) Create(ctx context.Context, obj T, opts metav1.CreateOptions) (T, error) {
	return as[T](r.of.create(ctx, obj, opts))
}

// Update replaces an object and returns it as the server has it. obj is not
// changed. If obj has a resource version, the server refuses to overwrite newer
// changes (apierrors.IsConflict), and the call is repeated as Get is. If it has none,
// Update overwrites whatever is there, and is repeated as Create is. Never send an
// object that was read only in part; see Keep.
func (r *Resource[T]) Update(ctx context.Context, obj T, opts metav1.UpdateOptions) (T, error) {
	return as[T](r.of.update(ctx, obj, opts))
}

// Patch changes an object and returns it as the server has it. The types of patches
// are those of k8s.io/apimachinery/pkg/types: JSON patch, merge patch, strategic
// merge patch (not for custom resources) and apply. An apply patch is repeated as
// Get is. The others may do something else the second time, and are repeated as
// Create is.
func (r *Resource[T]) Patch(ctx context.Context, key object.Key, pt types.PatchType, patch []byte, opts metav1.PatchOptions) (T, error) {
	return as[T](r.of.patch(ctx, key, pt, patch, opts))
}

// Apply sends obj as a server-side apply: the server sets the fields of obj, and
// opts.FieldManager owns them, or Config.FieldManager if that is empty. One of the
// two is required. An object that does not exist is created.
//
// Apply leaves out fields of a typed object that Go writes although nobody has set them, so
// that nobody owns them: null, and a struct that is empty although its tag says omitempty, such
// as a status or the resources of a container. A zero number, text or bool without omitempty is sent,
// since it may be meant; and one with omitempty is not, since Go does not write it. To send
// such a zero, or null, use an unstructured object, or Patch with an apply patch.
func (r *Resource[T]) Apply(ctx context.Context, obj T, opts metav1.ApplyOptions) (T, error) {
	return as[T](r.of.apply(ctx, obj, opts))
}

// Change reads an object from the server, lets change alter it, and sends what is
// different then as a JSON merge patch (RFC 7386): others may write other fields at the
// same time. Where nothing is different nothing is sent. It returns the object as the
// server has it.
//
// After a conflict the object is read again and change is called again, as often as
// RetryOnConflict does. change must not keep what it is given. An error of it ends
// Change and is returned as it is.
func (r *Resource[T]) Change(ctx context.Context, key object.Key, change func(T) error, opts ChangeOptions) (changed T, err error) {
	if change == nil {
		panic(failure.Place(1) + ": the function that is to change the object is nil")
	}
	return as[T](r.of.changeUntilDone(ctx, key, func(o object.Object) error { return change(o.(T)) }, opts))
}

// Delete deletes an object, which may live on for its grace period or until its
// finalizers are done. Delete is repeated as Get is.
func (r *Resource[T]) Delete(ctx context.Context, key object.Key, opts metav1.DeleteOptions) error {
	_, err := r.of.delete(ctx, key, opts)
	return err
}

// Deletion is the answer to a DELETE, as far as the server says it.
type Deletion struct {
	UID    types.UID     // of the object
	Object object.Object // the object, if that is the answer, as it mostly is if it lives on; else nil
}

// DeleteAnswered is Delete that returns the server's answer, which tells the object that was
// deleted from others of its name.
func (r *Resource[T]) DeleteAnswered(ctx context.Context, key object.Key, opts metav1.DeleteOptions) (Deletion, error) {
	return r.of.delete(ctx, key, opts)
}

// DeleteCollection deletes the objects that list selects; without a selector, all
// objects in the namespace of the resource. It is repeated as Create is.
func (r *Resource[T]) DeleteCollection(ctx context.Context, opts metav1.DeleteOptions, list metav1.ListOptions) error {
	return r.of.deleteCollection(ctx, opts, list)
}

// Stream opens what a subresource answers with that is no object, such as the log of a
// container:
//
//	log, err := pods.Subresource("log").Stream(ctx, key, &corev1.PodLogOptions{Follow: true})
//	if err != nil { ... }
//	defer log.Close()
//
// It returns when the server has begun to answer. The stream is read as it arrives, whatever
// its size, and ends only when the server ends it or ctx is done. A Read fails with the cause
// of ctx, and says what was read. opts become the query; nil is none. A stream belongs to one
// goroutine, and must be closed. Stream is sent again as Get is.
func (r *Resource[T]) Stream(ctx context.Context, key object.Key, opts runtime.Object) (io.ReadCloser, error) {
	return r.of.stream(ctx, key, opts)
}

// List reads the objects of the resource one by one, as they arrive. At most one
// item that was not yielded is in memory. Nothing is sent until Items is ranged
// over. Options that contradict each other are an error.
//
// Pages, which the server returns if opts.Limit is set, are followed. If the
// continue token of a later page has expired, the server's 410
// (apierrors.IsResourceExpired) ends the iteration, and the caller should list
// anew. List does not try again: its caller has a back-off and should see each
// failure. source.RetryAfter tells how long the server asked to wait.
func (r *Resource[T]) List(ctx context.Context, opts metav1.ListOptions) source.List[T] {
	list := r.Source().List(ctx, source.Request{ListOptions: opts})
	return source.List[T]{Meta: list.Meta, Items: func(yield func(T, error) bool) {
		list.Items(func(o object.Head, err error) bool { return yield(as[T](o, err)) })
	}}
}

// Watch opens a watch and returns when the server has accepted it. It sets
// opts.Watch; opts.TimeoutSeconds says how long the watch may last. Options that
// contradict each other are an error. Watch does not try again: its caller has a
// back-off and should see each failure. source.RetryAfter tells how long the server
// asked to wait.
//
// The iteration can be ranged over once. It ends without an error when the server
// ends the watch between two events, as servers do every few minutes. It ends with
// the server's *errors.StatusError after an ERROR event, with a *wire.Error at a
// frame that cannot be decoded, and with the cause of ctx when ctx is done. The
// connection is closed when the iteration ends, breaks or panics, or when ctx is
// done; an iteration that never begins holds its connection until then.
func (r *Resource[T]) Watch(ctx context.Context, opts metav1.ListOptions) (iter.Seq2[wire.Event[T], error], error) {
	events, err := r.Source().Watch(ctx, source.Request{ListOptions: opts})
	if err != nil {
		return nil, err
	}
	return func(yield func(wire.Event[T], error) bool) {
		events(func(e wire.Event[object.Head], err error) bool { return yield(event[T](e, err)) })
	}, nil
}

// event returns an event with its object as one of type T.
func event[T object.Object](e wire.Event[object.Head], err error) (wire.Event[T], error) {
	typed := wire.Event[T]{Type: e.Type, Bytes: e.Bytes, Received: e.Received, Decoded: e.Decoded, Passed: e.Passed}
	if e.Object != nil {
		typed.Object, err = as[T](e.Object, err)
	}
	return typed, err
}

// Client returns the client that the resource was made with.
func (r *Resource[T]) Client() *Client { return r.of.client }

// Kind returns the kind of the objects. It is empty if the Go type does not tell.
func (r *Resource[T]) Kind() object.GVK { return r.of.kind }

// Mapping returns where the kind is served, and finds it out first if need be. Of a
// built-in kind it may hold the place alone; see discovery.Builtin. It fails with a
// *source.ResolveError.
func (r *Resource[T]) Mapping(ctx context.Context) (discovery.Mapping, error) {
	return r.of.mapping(ctx)
}

func (r *resource) mapping(ctx context.Context) (discovery.Mapping, error) {
	if r.kindErr != nil {
		return discovery.Mapping{}, &source.ResolveError{Kind: r.kind, Err: r.kindErr}
	}
	return r.location.get(ctx)
}

// String names the resource for messages: "pods", "deployments.apps in
// namespace x", "pods/eviction". Until its place is known, the kind stands for it.
func (r *Resource[T]) String() string { return r.of.String() }

// String implements fmt.Stringer; see Resource.String.
func (r *resource) String() string {
	name := r.kind.GroupKind().String()
	if m, ok := r.location.peek(); ok {
		name = object.ResourceName(m.Resource)
	} else if r.kind.Empty() {
		name = r.declared.String()
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
func (r *resource) describe(key object.Key) string {
	if key.Name == "" {
		return r.in(key.Namespace).String()
	}
	return r.in("").String() + " " + object.FormatKey(key)
}

// complete puts the scope's namespace into the key of a call that has none, and checks
// that key and resource agree.
func (r *resource) complete(m discovery.Mapping, c call) (object.Key, error) {
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
func (r *resource) path(m discovery.Mapping, key object.Key) (string, error) {
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

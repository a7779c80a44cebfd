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

// Resource reads, watches and writes the objects of one kind. The first call looks up where the kind is
// served. The locations of built-in kinds are known, so for them discovery is used only after a 404 from the
// server.
//
// A Resource is immutable and safe for concurrent use. [Resource.Namespace],
// [Resource.Subresource], [Resource.Keep] and [Resource.Sharing] return modified copies that share the
// lookup.
//
// If the server rejects a verb, the error is apimachinery's *errors.StatusError (test it with functions
// such as apierrors.IsNotFound). If the kind is not served, the error is a *source.ResolveError. If the
// response cannot be decoded, it is a *wire.Error. Otherwise, it wraps the network error.
type Resource[T object.Object] struct {
	_  [0]*T // prevents conversion to a Resource of another type
	of *resource
}

// resource is the untyped part of a Resource.
type resource struct {
	client      *Client
	declared    reflect.Type // the type parameter: a pointer or an interface
	kind        object.GVK
	kindErr     error
	location    *location
	codec       *codec
	namespace   string
	subresource string
}

// ResourceFor returns the resource for a Go type that is registered under exactly one kind in the client's
// scheme, such as *corev1.Pod. If the type is not in the scheme, each verb fails with a
// *source.ResolveError that says so. ResourceFor panics if c is nil.
func ResourceFor[T object.Object](c *Client) *Resource[T] {
	kind, err := kindOf(c, reflect.TypeFor[T]())
	return &Resource[T]{of: newResource(c, reflect.TypeFor[T](), kind, err, &location{kind: kind, mapper: c.mapper})}
}

// ResourceForKind returns the resource for a kind. T may be the kind's Go type, *unstructured.Unstructured,
// *metav1.PartialObjectMetadata to read only metadata, or object.Object to use the Go type registered for
// the kind in the scheme.
func ResourceForKind[T object.Object](c *Client, kind object.GVK) *Resource[T] {
	c.mustExist()
	return &Resource[T]{of: newResource(c, reflect.TypeFor[T](), kind, nil, &location{kind: kind, mapper: c.mapper})}
}

// ResourceForType is like [ResourceFor], or like [ResourceForKind] if kind is not empty, for a Go type that
// is known only at run time. It must be a pointer or an interface.
func ResourceForType(c *Client, goType reflect.Type, kind object.GVK) *Resource[object.Object] {
	c.mustExist()
	var err error
	if kind.Empty() {
		kind, err = kindOf(c, goType)
	}
	return &Resource[object.Object]{of: newResource(c, goType, kind, err, &location{kind: kind, mapper: c.mapper})}
}

// ResourceOf returns the resource for o's kind: the kind set in o or, if it is not set, the kind of its Go
// type in the client's scheme. Use it to handle objects of any kind, such as those in a manifest. Responses
// have type T. If T is object.Object, they have the Go type registered for the kind in the scheme, and
// there must be one.
func ResourceOf[T object.Object](c *Client, o T) *Resource[T] {
	kind, err := c.KindOf(o)
	return &Resource[T]{of: newResource(c, reflect.TypeFor[T](), kind, err, &location{kind: kind, mapper: c.mapper})}
}

// Objects returns r as a Resource of object.Object, or nil if r is nil. It is a function rather than a
// method for the same reason as sharedinformer.Objects.
func Objects[T object.Object](r *Resource[T]) *Resource[object.Object] {
	if r == nil {
		return nil
	}
	return &Resource[object.Object]{of: r.of}
}

// KindOf returns the kind set in o or, if it is not set, the kind of its Go type in the client's scheme. It
// fails if o is nil, or if the type is not registered in the scheme under exactly one kind.
func (c *Client) KindOf(o object.Object) (object.GVK, error) {
	c.mustExist()
	if v := reflect.ValueOf(o); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return object.GVK{}, errors.New("the object that determines the kind is nil")
	}
	if kind := o.GetObjectKind().GroupVersionKind(); kind.Kind != "" && kind.Version != "" {
		return kind, nil
	}
	kinds, _, err := c.scheme.ObjectKinds(o)
	switch {
	case err != nil:
		return object.GVK{}, fmt.Errorf("%T has no kind set, and is not registered in the client's scheme: set its apiVersion and kind, or register it", o)
	case len(kinds) > 1:
		return object.GVK{}, fmt.Errorf("%T has no kind set, and the client's scheme has it under several kinds (%v): set its apiVersion and kind", o, kinds)
	}
	return kinds[0], nil
}

// ResourceForMapping returns the resource at a known location, without discovery. The location never changes,
// even after a 404 from the server. For T, see [ResourceForKind].
func ResourceForMapping[T object.Object](c *Client, m discovery.Mapping) *Resource[T] {
	return &Resource[T]{of: newResource(c, reflect.TypeFor[T](), m.Kind, nil, &location{kind: m.Kind, known: true, mapping: m})}
}

// SubresourceFor returns a subresource whose body has a different type than the object,
// such as "scale" (*autoscalingv1.Scale), "eviction" (*policyv1.Eviction), "binding" or
// "token":
//
//	evictions := rest.SubresourceFor[*policyv1.Eviction](pods, "eviction")
//	_, err := evictions.Create(ctx, &policyv1.Eviction{ObjectMeta: ...}, metav1.CreateOptions{})
//
// S's kind comes from the scheme. For a subresource of the same type as the object, such as "status",
// see [Resource.Subresource].
func SubresourceFor[S, T object.Object](r *Resource[T], name string) *Resource[S] {
	kind, err := kindOf(r.of.client, reflect.TypeFor[S]())
	return &Resource[S]{of: r.of.part(name, reflect.TypeFor[S](), kind, err)}
}

// SubresourceForKind is like [SubresourceFor], for a type that is not in the scheme.
func SubresourceForKind[S, T object.Object](r *Resource[T], name string, kind object.GVK) *Resource[S] {
	return &Resource[S]{of: r.of.part(name, reflect.TypeFor[S](), kind, nil)}
}

// part returns a subresource whose body has a type of its own.
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

// kindOf returns the kind of a Go type in the client's scheme.
func kindOf(c *Client, t reflect.Type) (object.GVK, error) {
	c.mustExist()
	if t.Kind() != reflect.Pointer || t == reflect.TypeFor[*unstructured.Unstructured]() || t == reflect.TypeFor[*metav1.PartialObjectMetadata]() {
		return object.GVK{}, fmt.Errorf("the kind of %v cannot be derived from the type: use ResourceForKind or ResourceForMapping, or set it in factory.For", t)
	}
	kinds, _, err := c.scheme.ObjectKinds(reflect.New(t.Elem()).Interface().(object.Object))
	switch {
	case err != nil:
		return object.GVK{}, fmt.Errorf("%v is not registered in the client's scheme: add it with the AddToScheme of its package to the scheme of the client (manager.Options.Scheme), or use ResourceForKind or ResourceForMapping, or set the kind in factory.For", t)
	case len(kinds) > 1:
		return object.GVK{}, fmt.Errorf("the client's scheme has %v under several kinds (%v): use ResourceForKind", t, kinds)
	}
	return kinds[0], nil
}

// as converts a verb's result to type T.
func as[T object.Object](o object.Head, err error) (T, error) {
	typed, ok := o.(T)
	if err == nil && !ok {
		err = &source.TypeError{Have: reflect.TypeOf(o), Want: reflect.TypeFor[T]()}
	}
	return typed, err
}

// Namespace returns the resource restricted to one namespace: List and Watch see only that namespace, and
// keys and objects without a namespace are assumed to be in it. The empty namespace means all namespaces.
func (r *Resource[T]) Namespace(namespace string) *Resource[T] {
	return &Resource[T]{of: r.of.in(namespace)}
}

func (r *resource) in(namespace string) *resource {
	in := *r
	in.namespace = namespace
	return &in
}

// Subresource returns a subresource whose body has the object's own type, such as
// "status". For other subresources, see [SubresourceFor].
func (r *Resource[T]) Subresource(name string) *Resource[T] {
	named := *r.of
	named.subresource = name
	return &Resource[T]{of: &named}
}

// Keep returns a copy of the resource whose objects contain only the wanted fields. If the objects lack one
// of these fields, each verb fails with wire.ErrFields. If managed fields are not wanted, the client asks
// the server to omit them, but old servers send them anyway.
//
// Update fails, because a partial object would replace the whole one, unless only managed fields are
// left out (wire.WithoutManagedFields).
func (r *Resource[T]) Keep(wanted wire.Fields) *Resource[T] {
	return &Resource[T]{of: r.of.decoding(func(opts *wire.Options) { opts.Keep = wanted })}
}

// Source returns the resource as an informer's source. It honors every field of a source.Request.
func (r *Resource[T]) Source() source.ListerWatcher { return &lister{resource: *r.of} }

// Sharing returns a copy of the resource whose lists and watches return objects that share equal values with
// all other objects in the pool. Such objects must not be modified. Other verbs still return objects that the
// caller owns. A nil pool disables sharing.
func (r *Resource[T]) Sharing(pool *wire.Pool) *Resource[T] {
	return &Resource[T]{of: r.of.decoding(func(opts *wire.Options) { opts.Pool = pool })}
}

// decoding returns a copy of the resource with change applied to its decoding options.
func (r *resource) decoding(change func(*wire.Options)) *resource {
	changed := *r
	if r.codec != nil {
		opts := r.codec.opts
		change(&opts)
		changed.codec = newCodec(opts, r.codec.cbor)
	}
	return &changed
}

// Kept returns the fields that the objects contain; see [Resource.Keep].
func (r *Resource[T]) Kept() wire.Fields { return r.of.kept() }

func (r *resource) kept() wire.Fields {
	if r.codec == nil {
		return wire.Fields{}
	}
	return r.codec.opts.Keep
}

// Get reads one object. It retries after 429 and 5xx with a Retry-After, making at most ten attempts and
// waiting at most 30 seconds in total; see Guarantees in the package documentation. It also retries once if
// the connection breaks before the response.
func (r *Resource[T]) Get(ctx context.Context, key object.Key, opts metav1.GetOptions) (T, error) {
	return as[T](r.of.get(ctx, key, opts))
}

// Create creates obj, in its own namespace or the resource's, and returns it as the server
// stored it. It does not modify obj. It retries only after 429 with a Retry-After, which means that the
// server has not started to process the request. After any other failure, the object may exist.
//
// On a subresource such as "eviction", obj's name selects the parent object. If the server responds with
// a successful Status instead of an object, Create returns obj itself.
func (r *Resource[T]) Create(ctx context.Context, obj T, opts metav1.CreateOptions) (T, error) {
	return as[T](r.of.create(ctx, obj, opts))
}

// Update replaces an object and returns it as the server stored it. It does not modify obj. If obj has a
// resource version, the server refuses to overwrite newer changes (apierrors.IsConflict), and Update
// retries after 429 and 5xx like [Resource.Get], but not if the connection breaks. If the server applied the
// update despite the 5xx, the retry may return a conflict. If obj has no resource version, Update overwrites
// whatever exists and retries like [Resource.Create]. Do not send an object that was only partially read;
// see [Resource.Keep].
func (r *Resource[T]) Update(ctx context.Context, obj T, opts metav1.UpdateOptions) (T, error) {
	return as[T](r.of.update(ctx, obj, opts))
}

// Patch modifies an object and returns it as the server stored it. The patch types are those of
// k8s.io/apimachinery/pkg/types: JSON patch, merge patch, strategic merge patch (not for custom
// resources) and apply. Patch retries an apply patch after 429 and 5xx like [Resource.Get], but not if the
// connection breaks. It retries the others like [Resource.Create], because they may not be idempotent.
func (r *Resource[T]) Patch(ctx context.Context, key object.Key, pt types.PatchType, patch []byte, opts metav1.PatchOptions) (T, error) {
	return as[T](r.of.patch(ctx, key, pt, patch, opts))
}

// Apply sends obj as a server-side apply, which creates the object if it does not
// exist. The server sets the fields in obj and records opts.FieldManager as their
// owner, or Config.FieldManager if that is empty. One of the two is required. Apply retries like
// [Resource.Patch] with an apply patch.
//
// For a typed object, Apply omits unset fields that Go encodes nevertheless, so that they do not get an
// owner: nulls, and empty structs tagged omitempty, such as a status or a container's resources. A zero
// number, string or bool is sent only if its field lacks omitempty, because it may be intentional. To send
// such a zero or a null, use an unstructured object, or [Resource.Patch] with an apply patch.
func (r *Resource[T]) Apply(ctx context.Context, obj T, opts metav1.ApplyOptions) (T, error) {
	return as[T](r.of.apply(ctx, obj, opts))
}

// Change reads an object from the server, calls change to modify it, and sends the
// difference as a JSON merge patch (RFC 7386), so other clients may write other fields at
// the same time. It sends no patch if nothing changed. It returns the object as stored on the server.
//
// After a conflict, Change reads the object and calls change again, as many times as
// [RetryOnConflict] does. change must not keep its argument. If change returns an error,
// Change stops and returns that error as is.
func (r *Resource[T]) Change(ctx context.Context, key object.Key, change func(T) error, opts ChangeOptions) (changed T, err error) {
	if change == nil {
		panic(failure.Place(1) + ": the function that is to change the object is nil")
	}
	return as[T](r.of.changeUntilDone(ctx, key, func(o object.Object) error { return change(o.(T)) }, opts))
}

// Delete deletes an object. The object may continue to exist for its grace period or until its finalizers are
// done. If opts has a UID or a resource version as a precondition, Delete retries after 429 and 5xx like
// [Resource.Get], but not if the connection breaks. If the server deleted the object despite the 5xx, the
// retry may return apierrors.IsNotFound or, if the object was created again, apierrors.IsConflict. Without a
// precondition, a retry could delete the new object, so Delete retries like [Resource.Create].
func (r *Resource[T]) Delete(ctx context.Context, key object.Key, opts metav1.DeleteOptions) error {
	_, err := r.of.delete(ctx, key, opts)
	return err
}

// Deletion is the server's response to a DELETE.
type Deletion struct {
	UID    types.UID     // UID of the deleted object; may be empty
	Object object.Object // the object if the server returned it, as it usually does while the object still exists; otherwise nil
}

// DeleteAnswered is like [Resource.Delete], but also returns the server's response. The UID distinguishes
// the deleted object from later ones with the same name.
func (r *Resource[T]) DeleteAnswered(ctx context.Context, key object.Key, opts metav1.DeleteOptions) (Deletion, error) {
	return r.of.delete(ctx, key, opts)
}

// DeleteCollection deletes the objects that match list or, if it has no selector, all objects in the
// resource's namespace. It retries like [Resource.Create].
func (r *Resource[T]) DeleteCollection(ctx context.Context, opts metav1.DeleteOptions, list metav1.ListOptions) error {
	return r.of.deleteCollection(ctx, opts, list)
}

// Stream opens a subresource that returns bytes instead of an object, such as a container's log:
//
//	log, err := pods.Subresource("log").Stream(ctx, key, &corev1.PodLogOptions{Follow: true})
//	if err != nil { ... }
//	defer log.Close()
//
// Stream returns once the server starts to respond. The caller reads the stream, which may have any
// size, as it arrives. The stream ends when the server closes it or ctx is done. The error from a failed Read
// identifies the request and includes ctx's cause if ctx is done. opts become the query and may be nil. Only
// one goroutine may read the stream, and the caller must close it. Until the server starts to respond,
// Stream retries like [Resource.Get], even if the connection breaks.
func (r *Resource[T]) Stream(ctx context.Context, key object.Key, opts runtime.Object) (io.ReadCloser, error) {
	return r.of.stream(ctx, key, opts)
}

// List reads the resource's objects one by one, as they arrive. At any time, at most one item that has not
// been yielded is in memory. List sends no request until the caller ranges over Items. Contradictory
// options are an error.
//
// If opts.Limit is set, List follows the pages. If a later page's continue token has
// expired, the iteration ends with the server's 410 (apierrors.IsResourceExpired), and the
// caller should list again. List does not retry, because the caller should see each failure and back off.
// source.RetryAfter returns how long the server asked to wait.
func (r *Resource[T]) List(ctx context.Context, opts metav1.ListOptions) source.List[T] {
	list := r.Source().List(ctx, source.Request{ListOptions: opts})
	return source.List[T]{Meta: list.Meta, Items: func(yield func(T, error) bool) {
		list.Items(func(o object.Head, err error) bool { return yield(as[T](o, err)) })
	}}
}

// Watch opens a watch and returns once the server has accepted it. It sets opts.Watch;
// opts.TimeoutSeconds limits how long the watch lasts. Contradictory options are an error.
// Watch does not retry, because the caller should see each failure and back off. source.RetryAfter returns
// how long the server asked to wait.
//
// The iterator can only be used once. It ends without an error if the server closes the watch between
// events, as servers do every few minutes. It ends with the server's *errors.StatusError after an ERROR
// event, with a *wire.Error if a frame cannot be decoded, and with ctx's cause if ctx is done. The
// connection is closed when the iteration ends, breaks or panics, or when ctx is done; if the caller never
// iterates, the connection remains open until then.
func (r *Resource[T]) Watch(ctx context.Context, opts metav1.ListOptions) (iter.Seq2[wire.Event[T], error], error) {
	events, err := r.Source().Watch(ctx, source.Request{ListOptions: opts})
	if err != nil {
		return nil, err
	}
	return func(yield func(wire.Event[T], error) bool) {
		events(func(e wire.Event[object.Head], err error) bool { return yield(event[T](e, err)) })
	}, nil
}

// event converts an event's object to type T.
func event[T object.Object](e wire.Event[object.Head], err error) (wire.Event[T], error) {
	typed := wire.Event[T]{Type: e.Type, Bytes: e.Bytes, Received: e.Received, Decoded: e.Decoded, Passed: e.Passed}
	if e.Object != nil {
		typed.Object, err = as[T](e.Object, err)
	}
	return typed, err
}

// Client returns the resource's client.
func (r *Resource[T]) Client() *Client { return r.of.client }

// Kind returns the objects' kind, or the empty kind if the Go type does not determine it.
func (r *Resource[T]) Kind() object.GVK { return r.of.kind }

// Mapping returns the location of the kind, looking it up if necessary. For a built-in kind, the mapping may
// contain only the location; see discovery.Builtin. If the lookup fails, the error is a
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

// String describes the resource in messages: "pods", "deployments.apps in namespace x", "pods/eviction".
// Until the location is known, it uses the kind.
func (r *Resource[T]) String() string { return r.of.String() }

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

// describe describes an object or, if key has no name, the collection.
func (r *resource) describe(key object.Key) string {
	if key.Name == "" {
		return r.in(key.Namespace).String()
	}
	return r.in("").String() + " " + object.FormatKey(key)
}

// complete adds the resource's namespace to a key that has none, and checks that the key is valid for the
// resource.
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
		return key, fmt.Errorf("the key %q is outside namespace %q", key, r.namespace)
	}
	if m.Namespaced && key.Namespace == "" && key.Name != "" {
		return key, fmt.Errorf("%s are namespaced, and the key %q has no namespace", name, key.Name)
	}
	if m.Namespaced && key.Namespace == "" && c.method != http.MethodGet {
		// Only lists and watches span all namespaces.
		return key, fmt.Errorf("%s are namespaced, and no namespace was given: set the object's, or use Resource.Namespace", name)
	}
	return key, nil
}

// path returns the escaped path of an object or, if key has no name, of the collection.
func (r *resource) path(m discovery.Mapping, key object.Key) (string, error) {
	segments := []string{"apis", m.Resource.Group, m.Resource.Version}
	if m.Resource.Group == "" {
		segments = []string{"api", m.Resource.Version}
	}
	if m.Namespaced && key.Namespace != "" {
		// With an invalid namespace, the server would find no objects and report success.
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
		// Some subresources have several segments, such as "proxy/metrics".
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

// segmentFault returns the reason why the API server would reject a path segment, or "" if it would not. It
// implements IsPathSegmentName from k8s.io/apimachinery, which is in a different package in v0.35.
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

package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire"
)

// codec chooses the request and response encodings for one kind.
type codec struct {
	opts         wire.Options
	metadataOnly bool
	protobuf     bool // the server is expected to support protobuf
	cbor         bool // request CBOR first
	decoders     decoders
}

// decoders maps media types to decoders, which are built on first use.
type decoders map[string]func() (wire.Decoder, error)

func newDecoders(decoder func(media string) (wire.Decoder, error)) decoders {
	d := decoders{}
	for _, media := range []string{wire.MediaJSON, wire.MediaProtobuf, wire.MediaCBOR, wire.MediaCBORSequence} {
		d[media] = sync.OnceValues(func() (wire.Decoder, error) { return decoder(media) })
	}
	return d
}

// of returns the decoder for a response's body.
func (d decoders) of(client *Client, resp *http.Response) (wire.Decoder, error) {
	media, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	decoder, ok := d[strings.ToLower(strings.TrimSpace(media))]
	if !ok {
		return nil, client.foreign(resp)
	}
	return decoder()
}

func newCodec(opts wire.Options, cbor bool) *codec {
	c := &codec{opts: opts, cbor: cbor}
	made := goType(opts)
	c.metadataOnly = made == reflect.TypeFor[*metav1.PartialObjectMetadata]()
	c.protobuf = (c.metadataOnly || isBuiltin(made)) && wire.SupportsProtobuf(opts)
	c.decoders = newDecoders(func(media string) (wire.Decoder, error) { return wire.NewDecoder(media, opts) })
	return c
}

// isBuiltin reports whether t is one of Kubernetes' own types. Servers encode custom resources
// only as JSON, even if their Go types have protobuf methods.
func isBuiltin(t reflect.Type) bool {
	return t != nil && t.Kind() == reflect.Pointer && object.IsBuiltin(t.Elem())
}

// goType returns the pointer type of the objects, or nil if it is unknown.
func goType(opts wire.Options) reflect.Type {
	if opts.Type.Kind() == reflect.Pointer {
		return opts.Type
	}
	if known := opts.Scheme.KnownTypes(opts.Kind.GroupVersion())[opts.Kind.Kind]; known != nil {
		return reflect.PointerTo(known)
	}
	return nil
}

// check returns an error if objects of the kind cannot be decoded with the codec's options, for example
// because they do not have a requested field.
func (c *codec) check() error {
	_, err := c.decoders[wire.MediaJSON]()
	return err
}

// plain reports whether requests already contain nothing that a server might reject.
func (c *codec) plain() bool { return !c.protobuf && !c.cbor && !c.dropsManagedFields() }

// writable reports whether an object may be written back the way it was read. Managed fields may be
// missing, because the server then keeps the existing ones.
func (c *codec) writable() bool { return c.opts.Keep.Whole() }

func (c *codec) dropsManagedFields() bool { return !c.opts.Keep.Keeps("metadata.managedFields") }

// dropManagedFields asks the server to leave out managed fields (KEP-5958). Servers that do not know the
// parameter ignore it, and servers that do not accept it fall back to the next clause of the header.
const dropManagedFields = ";drop=metadata.managedFields"

// accept returns the Accept header for one object or for a list. If plain is set, the header contains nothing
// that a server could reject.
func (c *codec) accept(list, plain bool) string {
	as := ""
	switch {
	case c.metadataOnly && list:
		as = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	case c.metadataOnly:
		as = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	}
	var clauses []string
	for _, media := range c.media(plain) {
		if !plain && c.dropsManagedFields() {
			clauses = append(clauses, media+as+dropManagedFields)
		}
		clauses = append(clauses, media+as)
	}
	if c.metadataOnly {
		// Servers that cannot reduce objects to their metadata send whole objects.
		clauses = append(clauses, wire.MediaJSON)
	}
	return strings.Join(clauses, ",")
}

// media returns the acceptable media types, in order of preference.
func (c *codec) media(plain bool) (media []string) {
	if c.cbor && !plain {
		media = append(media, wire.MediaCBOR)
	}
	if c.protobuf && !plain {
		media = append(media, wire.MediaProtobuf)
	}
	return append(media, wire.MediaJSON)
}

// encode encodes an object with its kind set, and returns the media type.
func (c *codec) encode(obj object.Object, asProtobuf bool) (body []byte, contentType string, err error) {
	kinded, err := c.withKind(obj)
	if err != nil {
		return nil, "", err
	}
	if asProtobuf {
		var buf bytes.Buffer
		// Encoding a quantity caches its text in it, and other code may be using the object.
		if err := protobuf.NewSerializer(nil, nil).Encode(kinded.DeepCopyObject(), &buf); err != nil {
			return nil, "", fmt.Errorf("encode as protobuf: %w", err)
		}
		return buf.Bytes(), wire.MediaProtobuf, nil
	}
	body, err = json.Marshal(kinded)
	if err != nil {
		return nil, "", fmt.Errorf("encode as JSON: %w", err)
	}
	return body, wire.MediaJSON, nil
}

// withKind returns obj with its kind set. It does not modify obj, which may be in a cache.
func (c *codec) withKind(obj object.Object) (runtime.Object, error) {
	v := reflect.ValueOf(obj)
	if !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, errors.New("the object is nil")
	}
	is := obj.GetObjectKind().GroupVersionKind()
	if !is.Empty() && is != c.opts.Kind {
		return nil, fmt.Errorf("the object is of kind %s %s, want %s %s", is.GroupVersion(), is.Kind, c.opts.Kind.GroupVersion(), c.opts.Kind.Kind)
	}
	if is == c.opts.Kind {
		return obj, nil
	}
	if u, ok := any(obj).(*unstructured.Unstructured); ok {
		kinded := &unstructured.Unstructured{Object: maps.Clone(u.Object)}
		kinded.SetGroupVersionKind(c.opts.Kind)
		return kinded, nil
	}
	shallow := reflect.New(v.Type().Elem())
	shallow.Elem().Set(v.Elem())
	kinded := shallow.Interface().(runtime.Object)
	kinded.GetObjectKind().SetGroupVersionKind(c.opts.Kind)
	return kinded, nil
}

// isSuccess reports whether err is a Status for success, which some subresources return instead of an
// object.
func isSuccess(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && status.ErrStatus.Status == metav1.StatusSuccess
}

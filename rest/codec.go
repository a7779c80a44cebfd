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

// codec knows how the objects of one kind are asked for, read and written.
type codec struct {
	opts         wire.Options
	metadataOnly bool
	protobuf     bool // whether the server is expected to speak protobuf
	cbor         bool // whether CBOR is asked for before all else
	decoders     decoders
}

// decoders are those of each media type. Each is made when it is first needed.
type decoders map[string]func() (wire.Decoder, error)

func newDecoders(decoder func(media string) (wire.Decoder, error)) decoders {
	d := decoders{}
	for _, media := range []string{wire.MediaJSON, wire.MediaProtobuf, wire.MediaCBOR, wire.MediaCBORSequence} {
		d[media] = sync.OnceValues(func() (wire.Decoder, error) { return decoder(media) })
	}
	return d
}

// of returns the decoder for the body of an answer.
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

// isBuiltin reports whether the Go type of the objects is one of Kubernetes' own.
// Custom resources are served as JSON only, whatever methods their types have.
func isBuiltin(t reflect.Type) bool {
	return t != nil && t.Kind() == reflect.Pointer && object.IsBuiltin(t.Elem())
}

// goType is the type of the objects, which are pointers. It is nil if nothing says what they are.
func goType(opts wire.Options) reflect.Type {
	if opts.Type.Kind() == reflect.Pointer {
		return opts.Type
	}
	if known := opts.Scheme.KnownTypes(opts.Kind.GroupVersion())[opts.Kind.Kind]; known != nil {
		return reflect.PointerTo(known)
	}
	return nil
}

// check fails where objects of the kind cannot be decoded as they are wanted,
// such as with fields that they do not have.
func (c *codec) check() error {
	_, err := c.decoders[wire.MediaJSON]()
	return err
}

// plain reports whether nothing is asked for that a server could refuse.
func (c *codec) plain() bool { return !c.protobuf && !c.cbor && !c.dropsManagedFields() }

// writable reports whether an object that was read can be sent back. The server
// keeps the managed fields of an object that comes without them.
func (c *codec) writable() bool { return c.opts.Keep.Whole() }

func (c *codec) dropsManagedFields() bool { return !c.opts.Keep.Keeps("metadata.managedFields") }

// dropManagedFields asks a server not to send managed fields (KEP-5958). One
// that does not know it ignores it; one that refuses it takes what comes next in
// the header.
const dropManagedFields = ";drop=metadata.managedFields"

// accept returns the Accept header for a single object, or for a list; plain
// without what a server may refuse.
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
		// A server that cannot reduce objects to their metadata sends them whole.
		clauses = append(clauses, wire.MediaJSON)
	}
	return strings.Join(clauses, ",")
}

// media returns the media types to ask for, the best first.
func (c *codec) media(plain bool) (media []string) {
	if c.cbor && !plain {
		media = append(media, wire.MediaCBOR)
	}
	if c.protobuf && !plain {
		media = append(media, wire.MediaProtobuf)
	}
	return append(media, wire.MediaJSON)
}

// encode writes an object with its kind, and returns the media type.
func (c *codec) encode(obj object.Object, asProtobuf bool) (body []byte, contentType string, err error) {
	kinded, err := c.withKind(obj)
	if err != nil {
		return nil, "", err
	}
	if asProtobuf {
		var buf bytes.Buffer
		if err := protobuf.NewSerializer(nil, nil).Encode(kinded, &buf); err != nil {
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

// withKind returns obj with its kind set. The caller's object is not changed:
// it may be shared with a cache.
func (c *codec) withKind(obj object.Object) (runtime.Object, error) {
	v := reflect.ValueOf(obj)
	if !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, errors.New("the object is nil")
	}
	is := obj.GetObjectKind().GroupVersionKind()
	if !is.Empty() && is != c.opts.Kind {
		return nil, fmt.Errorf("the object says that it is %s %s, want %s %s", is.GroupVersion(), is.Kind, c.opts.Kind.GroupVersion(), c.opts.Kind.Kind)
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

// isSuccess reports whether err is in truth the Status of a success, which some
// subresources answer with instead of an object.
func isSuccess(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && status.ErrStatus.Status == metav1.StatusSuccess
}

package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion/queryparams"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/discovery"
	"github.com/millrace-dev/millrace/wire"
)

// maxObjectBody limits the size of a body that contains one object.
const maxObjectBody = wire.DefaultMaxObjectBytes + 4<<10

// acceptAny is the Accept header for responses that are not decoded.
const acceptAny = wire.MediaJSON + ", */*"

// call is a single use of a verb. The resource's location and the server's encodings are determined later.
type call struct {
	verb   string
	method string
	key    object.Key
	query  url.Values
	list   bool // the response is a list
	repeat repeat
	stream bool // the caller reads the response body as it arrives
	bytes  bool // the response is not an object, and may come from a program behind the server's proxy

	object      object.Object // object to send, in an encoding that the server accepts
	body        []byte        // or bytes to send as is
	contentType string        // type of body
}

// send resolves the resource and sends the call. If the server rejects the encoding, send repeats the
// call using plain JSON. The caller must close the response body.
func (r *resource) send(ctx context.Context, c call) (*request, *http.Response, error) {
	m, err := r.mapping(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("%s %s: %w", c.verb, r.describe(c.key), err)
	}
	key, err := r.complete(m, c)
	if err != nil {
		if other, changed := r.location.doubt(ctx, m); changed {
			m = other
			key, err = r.complete(m, c)
		}
	}
	if c.key = key; err != nil {
		return nil, nil, fmt.Errorf("%s %s: %w", c.verb, r.describe(c.key), err)
	}
	if err := r.codec.check(); err != nil {
		return nil, nil, fmt.Errorf("%s %s: %w", c.verb, r.describe(c.key), err)
	}
	plain := r.codec.plain() || r.client.wantsPlain(m.Resource)
	req, err := r.request(m, c, plain)
	if err != nil {
		return nil, nil, fmt.Errorf("%s %s: %w", c.verb, r.describe(c.key), err)
	}
	resp, err := r.client.do(ctx, req)
	if !c.bytes && placeMissing(err, c.stream) {
		r.location.forget() // the resource is no longer served there, but may have moved
	}
	refused := apierrors.IsNotAcceptable(err) ||
		apierrors.IsUnsupportedMediaType(err) && req.contentType == wire.MediaProtobuf
	if plain || c.bytes || !refused {
		return req, resp, err
	}
	r.client.setPlain(m.Resource)
	if req, err = r.request(m, c, true); err != nil {
		return nil, nil, fmt.Errorf("%s %s: %w", c.verb, r.describe(c.key), err)
	}
	resp, err = r.client.do(ctx, req)
	return req, resp, err
}

// placeMissing reports whether err means that the server does not serve the resource at all, as opposed to a
// single object being missing. Lists and watches do not involve a single object. For other verbs, a 404 for a
// missing object has a Status that identifies the object, whereas a 404 for an unknown path comes from the
// API server's web server and has no Status.
func placeMissing(err error, stream bool) bool {
	if !apierrors.IsNotFound(err) {
		return false
	}
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return stream || ok && (status.ErrStatus.Details == nil || apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse))
}

func (r *resource) request(m discovery.Mapping, c call, plain bool) (*request, error) {
	path, err := r.path(m, c.key)
	if err != nil {
		return nil, err
	}
	if c.object != nil {
		if c.body, c.contentType, err = r.codec.encode(c.object, r.codec.protobuf && !plain); err != nil {
			return nil, err
		}
	}
	accept := r.codec.accept(c.list, plain)
	if c.bytes {
		accept = acceptAny
	}
	return &request{
		verb:        c.verb,
		what:        r.describe(c.key),
		resource:    m.Resource.GroupResource(),
		name:        c.key.Name,
		method:      c.method,
		path:        path,
		query:       c.query,
		accept:      accept,
		contentType: c.contentType,
		body:        c.body,
		repeat:      c.repeat,
		stream:      c.stream,
	}, nil
}

// one sends a call that returns a single object.
func (r *resource) one(ctx context.Context, c call) (object.Object, error) {
	var none object.Object
	req, resp, err := r.send(ctx, c)
	if err != nil {
		return none, err
	}
	defer finishBody(resp)
	decoder, err := r.codec.decoders.of(r.client, resp)
	if err != nil {
		return none, req.wrap(err)
	}
	body, err := readBody(resp, maxObjectBody)
	if err != nil {
		return none, req.wrap(err)
	}
	obj, err := decoder.Object(body)
	if err == nil {
		return obj.(object.Object), nil // decoders for whole objects return object.Object
	}
	if isSuccess(err) && c.object != nil {
		return c.object, nil
	}
	return none, req.wrap(r.client.concealed(resp, err))
}

// none sends a call whose response only confirms success, with a Status or the deleted object. It returns
// what the response says about that object. It fails if the response does not come from the API.
func (r *resource) none(ctx context.Context, c call) (d Deletion, err error) {
	req, resp, err := r.send(ctx, c)
	if err != nil {
		return d, err
	}
	defer finishBody(resp)
	if resp.StatusCode == http.StatusNoContent || resp.ContentLength == 0 && resp.Header.Get("Content-Type") == "" {
		return d, nil
	}
	decoder, err := r.codec.decoders.of(r.client, resp)
	if err != nil {
		return d, req.wrap(err)
	}
	body, err := readBody(resp, maxStatusBytes)
	if len(body) > maxStatusBytes {
		return d, nil // too big for a Status or an error page, so it contains the objects of a deleted collection
	}
	if err != nil {
		return d, req.wrap(err)
	}
	if status := readStatus(resp.Header.Get("Content-Type"), body); status != nil {
		return d, req.wrap(r.client.concealed(resp, status))
	}
	if isJSON(resp) && len(body) > 0 && !r.mayDescribeDeletion(body) {
		return d, req.wrap(notTheAPI(r.client.base.Host, resp, nil, r.client.conceal(resp))) // do not quote the response: it may be a Secret
	}
	return deletionOf(decoder.Object(body)), nil
}

// mayDescribeDeletion reports whether JSON has the kind of a response to a DELETE: a Status, an object or a list
// from the resource's API group, or the metadata of an object.
func (r *resource) mayDescribeDeletion(body []byte) bool {
	var is metav1.TypeMeta
	if json.Unmarshal(body, &is) != nil || is.Kind == "" || is.APIVersion == "" {
		return false
	}
	gv, err := schema.ParseGroupVersion(is.APIVersion)
	return err == nil && (gv.Group == r.kind.Group || gv.Group == metav1.GroupName || is.APIVersion == "v1" && is.Kind == "Status")
}

// deletionOf converts the decoded response to a DELETE: the object, or a Status that reports success.
func deletionOf(o object.Head, err error) Deletion {
	if o, ok := o.(object.Object); ok && err == nil {
		return Deletion{UID: o.GetUID(), Object: o}
	}
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok && status.ErrStatus.Details != nil {
		return Deletion{UID: status.ErrStatus.Details.UID}
	}
	return Deletion{}
}

// query encodes options as query parameters.
func query(options any) (url.Values, error) {
	values, err := queryparams.Convert(options)
	if err != nil {
		return nil, fmt.Errorf("encode the options: %w", err)
	}
	return values, nil
}

// deleteBody encodes DeleteOptions, which are sent in the body.
func deleteBody(opts metav1.DeleteOptions) ([]byte, error) {
	opts.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}
	body, err := json.Marshal(&opts)
	if err != nil {
		return nil, fmt.Errorf("encode the options: %w", err)
	}
	return body, nil
}

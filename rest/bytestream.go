package rest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace-dev/millrace/object"
)

// Stream opens what a subresource answers with that is no object, such as the log of a
// container:
//
//	log, err := pods.Subresource("log").Stream(ctx, key, &corev1.PodLogOptions{Follow: true})
//	if err != nil { ... }
//	defer log.Close()
//
// It returns when the server has begun to answer. What comes is read as it comes, for as
// long as the server sends and ctx lasts, whatever its size; nothing else ends it. A Read
// fails with the cause of ctx, and says what was read. opts become the query; nil is none. A
// stream belongs to one goroutine, and must be closed. Stream is sent again as Get is.
func (r *Resource[T]) Stream(ctx context.Context, key object.Key, opts runtime.Object) (io.ReadCloser, error) {
	c := call[T]{verb: "get", method: http.MethodGet, key: key, repeat: idempotent}
	if key.Name == "" {
		return nil, fmt.Errorf("%s %s: the name is empty", c.verb, r.describe(key))
	}
	if v := reflect.ValueOf(opts); v.IsValid() && !(v.Kind() == reflect.Pointer && v.IsNil()) {
		var err error
		if c.query, err = query(opts); err != nil {
			return nil, fmt.Errorf("%s %s: %w", c.verb, r.describe(key), err)
		}
	}
	req, resp, err := r.send(ctx, c)
	if err != nil {
		return nil, err
	}
	return &byteStream{ReadCloser: resp.Body, ctx: ctx, request: req}, nil
}

// byteStream is a body whose errors say what was read.
type byteStream struct {
	io.ReadCloser
	ctx     context.Context
	request *request
}

// Read implements io.Reader.
func (s *byteStream) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = s.request.wrap(withCause(s.ctx, err))
	}
	return n, err
}

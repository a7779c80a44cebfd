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

func (r *resource) stream(ctx context.Context, key object.Key, opts runtime.Object) (io.ReadCloser, error) {
	c := call{verb: "get", method: http.MethodGet, key: key, repeat: idempotent}
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

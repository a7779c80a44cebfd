package apiservertest

import (
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// response counts what is written to a client, and alters and cuts it where the
// fault plan says so.
type response struct {
	http.ResponseWriter
	code     int
	bytes    int64 // of body that were sent
	cutAfter int64 // bytes of body that may pass; negative for all
	alters   *alterations
	headers  []Header // which replace those that the server sets
}

func newResponse(w http.ResponseWriter) *response {
	return &response{ResponseWriter: w, cutAfter: -1}
}

func (w *response) WriteHeader(code int) {
	if w.code != 0 {
		return
	}
	w.code = code
	header := w.Header()
	header.Set("Cache-Control", "no-cache, private")
	for _, h := range w.headers {
		header[http.CanonicalHeaderKey(h.Name)] = h.Values
	}
	w.ResponseWriter.WriteHeader(code)
}

func (w *response) Write(p []byte) (int, error) {
	if w.code == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.alters == nil {
		return w.pass(p)
	}
	if n, err := w.pass(w.alters.alter(p)); err != nil {
		return min(n, len(p)), err
	}
	return len(p), nil
}

// pass sends what may pass.
func (w *response) pass(p []byte) (int, error) {
	if w.cutAfter < 0 || w.bytes+int64(len(p)) <= w.cutAfter {
		n, err := w.ResponseWriter.Write(p)
		w.bytes += int64(n)
		return n, err
	}
	n, err := w.ResponseWriter.Write(p[:max(0, w.cutAfter-w.bytes)])
	w.bytes += int64(n)
	if err != nil {
		return n, err
	}
	if err := w.flush(); err != nil {
		return n, err
	}
	return n, errCut
}

func (w *response) flush() error {
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Unwrap lets http.ResponseController find the connection.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// The errors of this file are those that apimachinery has no constructor for.

func failure(code int32, reason metav1.StatusReason, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message,
	}}
}

func notAcceptable(message string) error {
	return failure(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable, message)
}

func unsupportedMediaType(message string) error {
	return failure(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType, message)
}

// unclassified is what an error becomes that the API server did not expect to
// reach a client: 500 without a reason.
func unclassified(message string) error {
	return failure(http.StatusInternalServerError, "", message)
}

func methodNotAllowed() error {
	return apierrors.NewGenericServerResponse(http.StatusMethodNotAllowed, "", schema.GroupResource{}, "", "", 0, false)
}

func notServed() error {
	return apierrors.NewGenericServerResponse(http.StatusNotFound, "", schema.GroupResource{}, "", "", 0, false)
}

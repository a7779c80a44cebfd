package apiservertest

import (
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// response counts the bytes written to a client, and alters and truncates them according to the fault plan.
type response struct {
	http.ResponseWriter
	code     int
	bytes    int64 // body bytes sent
	cutAfter int64 // body bytes to send; negative means all
	alters   *alterations
	headers  []Header // these override the server's
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

// pass sends as much of p as cutAfter allows.
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

// Unwrap is used by [http.ResponseController].
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Errors for which apimachinery has no constructor.

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

// unclassified returns an error in the form that the API server uses for unexpected internal errors: a 500
// without a reason.
func unclassified(message string) error {
	return failure(http.StatusInternalServerError, "", message)
}

func methodNotAllowed() error {
	return apierrors.NewGenericServerResponse(http.StatusMethodNotAllowed, "", schema.GroupResource{}, "", "", 0, false)
}

func notServed() error {
	return apierrors.NewGenericServerResponse(http.StatusNotFound, "", schema.GroupResource{}, "", "", 0, false)
}

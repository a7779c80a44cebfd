package webhook

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/failure"
)

// call is a single request to a Server.
type call struct {
	log                   *slog.Logger
	admission, conversion *budget

	panicked bool // the user's function panicked; set by the handler and read after it returns
}

type callKey struct{}

// callOf returns the call that ctx belongs to. If the handler is not running in a [Server], the call has no
// log and no budget.
func callOf(ctx context.Context) *call {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c
	}
	return &call{log: slog.New(slog.DiscardHandler)}
}

// begin creates the call for a request.
func (s *Server) begin(w http.ResponseWriter, r *http.Request) {
	c := &call{log: s.log.With("path", r.URL.Path), admission: s.admission, conversion: s.conversion}
	s.mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callKey{}, c)))
}

// refused calls a user's function in a separate goroutine. If the function fails, refused returns the
// status for the API server and the error.
func (c *call) refused(in string, code int32, reason metav1.StatusReason, f func() error) (*metav1.Status, error) {
	err := failure.Apart(in, f)
	if err == nil {
		return nil, nil
	}
	if c.failed(err) {
		err = apierrors.NewInternalError(err)
	}
	return statusOf(err, code, reason), err
}

// failed reports whether err means that the user's function panicked or called runtime.Goexit, and logs
// it.
func (c *call) failed(err error) bool {
	if p, ok := errors.AsType[*failure.PanicError](err); ok {
		c.log.Error("a webhook panicked", "err", err, "stack", string(p.Stack))
	} else if _, ok := errors.AsType[*failure.GoexitError](err); ok {
		c.log.Error("a webhook called runtime.Goexit", "err", err)
	} else {
		return false
	}
	c.panicked = true
	return true
}

// failedMetrics logs a panic or runtime.Goexit in the Metrics.
func (c *call) failedMetrics(err error) {
	if err != nil {
		c.log.Error("the metrics of a webhook failed", append([]any{"err", err}, failure.Stack(err)...)...)
	}
}

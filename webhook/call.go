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

// call is one request to a Server, as its handlers see it.
type call struct {
	log                   *slog.Logger
	admission, conversion *budget

	panicked bool // the user's function did; set by the handler, read after it
}

type callKey struct{}

// callOf is the call that ctx belongs to. A handler that is served by another
// server has one without a log and without a budget.
func callOf(ctx context.Context) *call {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c
	}
	return &call{log: slog.New(slog.DiscardHandler)}
}

// begin makes a call of each request.
func (s *Server) begin(w http.ResponseWriter, r *http.Request) {
	c := &call{log: s.log.With("path", r.URL.Path), admission: s.admission, conversion: s.conversion}
	s.mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callKey{}, c)))
}

// refused calls a function of the user's in a goroutine of its own. It returns nil, or what
// the API server is told of the function's error, and that error.
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

// failed notes and logs a panic or a Goexit of the user's function. It reports
// whether err is one.
func (c *call) failed(err error) bool {
	if p, ok := errors.AsType[*failure.PanicError](err); ok {
		c.log.Error("a webhook panicked", "err", err, "stack", string(p.Stack))
	} else if _, ok := errors.AsType[*failure.GoexitError](err); ok {
		c.log.Error("a webhook ended its goroutine", "err", err)
	} else {
		return false
	}
	c.panicked = true
	return true
}

// failedMetrics logs a panic or a Goexit of the Metrics.
func (c *call) failedMetrics(err error) {
	if err != nil {
		c.log.Error("the metrics of a webhook failed", append([]any{"err", err}, failure.Stack(err)...)...)
	}
}

package controller

import (
	"log/slog"
	"time"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/internal/throttle"
)

// MetricsProvider makes the Metrics of each controller. Package metrics has one for
// Prometheus.
type MetricsProvider interface {
	// Register is called once by New, which fails if it panics or calls runtime.Goexit.
	// The view may be used until Metrics.Stopped is called. All but durations is read from
	// the view when it is wanted.
	Register(c View) Metrics
}

// Metrics measures one controller. The workers call it concurrently. A panic or a
// runtime.Goexit is logged and does not harm the controller.
type Metrics interface {
	// Started is called when Run begins. The view is the one that Register received: a
	// controller may run again after it has stopped.
	Started(c View)

	// Stopped is called when Run ends, with the controller's last status. The controller
	// can be freed once the view is dropped here.
	Stopped(last Status)

	// ReconcileTime receives the duration of a reconcile.
	ReconcileTime(d time.Duration)
}

// guardedMetrics calls the Metrics of a user. It logs a panic or a runtime.Goexit, so that
// neither ends a worker or blocks the end of Run. Nil does nothing.
type guardedMetrics struct {
	metrics Metrics
	log     *slog.Logger
	reports throttle.Log
}

func (m *guardedMetrics) started(c View)      { m.call(func() { m.metrics.Started(c) }) }
func (m *guardedMetrics) stopped(last Status) { m.call(func() { m.metrics.Stopped(last) }) }

func (m *guardedMetrics) reconcileTime(d time.Duration) {
	m.call(func() { m.metrics.ReconcileTime(d) })
}

func (m *guardedMetrics) call(tell func()) {
	if m == nil {
		return
	}
	err := failure.Apart("the metrics", func() error { tell(); return nil })
	if err != nil {
		m.reports.Do(func(more int) { report(m.log.With("more", more), "the metrics failed", err) })
	}
}

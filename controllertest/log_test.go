package controllertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/manager"
)

// heard is a test whose log is kept.
type heard struct {
	testing.TB
	log      bytes.Buffer
	cleanups []func()
}

func (h *heard) Output() io.Writer               { return &h.log }
func (h *heard) Helper()                         {}
func (h *heard) Cleanup(f func())                { h.cleanups = append(h.cleanups, f) }
func (h *heard) Log(args ...any)                 { fmt.Fprintln(&h.log, args...) }
func (h *heard) Logf(format string, args ...any) { fmt.Fprintf(&h.log, format+"\n", args...) }

// failing is a controller of namespaces whose reconciles fail while fails is set.
func failing(t testing.TB, f *factory.Factory, fails *bool) *controller.Controller {
	t.Helper()
	namespaces := controller.ClientFor[*corev1.Namespace](f)
	c, err := controller.New("greeter", controller.Objects(namespaces, func(context.Context, *corev1.Namespace) (controller.Result, error) {
		if *fails {
			return controller.Result{}, errors.New("no greeting in this language")
		}
		return controller.Result{}, nil
	}), controller.Options{})
	require.NoError(t, err)
	c.Watch(controller.For(namespaces.Informer()))
	return c
}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// A reconcile that fails shows in the test's log, though the controller has no logger.
func TestFailingReconcilesAreLogged(t *testing.T) {
	Run(t, func(e *Env) {
		h, fails := &heard{TB: e.TB}, true
		e.TB = h
		Put(e, namespace("shop"))
		e.Start(failing(t, e.Factory, &fails))
		require.Contains(t, h.log.String(), "controller greeter: failed reconciles: 1, the last: shop: no greeting in this language (1 attempt, 0s ago)")
		h.log.Reset()
		fails = false
		e.Settle(0)
		require.Empty(t, h.log.String(), "each is told once")
	})
}

// A type that the scheme does not know shows in the test's log.
func TestForgottenSchemeIsLogged(t *testing.T) {
	h := &heard{TB: t}
	logger := newLogger(h)
	RunWith(t, Options{Scheme: runtime.NewScheme(), Logger: logger}, func(e *Env) {
		e.TB = h
		fails := false
		e.Start(failing(t, e.Factory, &fails))
		require.Contains(t, h.log.String(), "controller greeter: waiting for")
		require.Contains(t, h.log.String(), "00:00:00.000 level=WARN")
	})
}

// Messages after the end of a test are dropped: a test's own log would panic.
func TestTheLogEndsWithTheTest(t *testing.T) {
	h := &heard{TB: t}
	logger := newLogger(h)
	logger.Debug("too little to be told")
	require.Empty(t, h.log.String())
	logger.Warn("in time", "answer", 42)
	require.Contains(t, h.log.String(), `level=WARN msg="in time" answer=42`)
	h.log.Reset()
	for _, end := range h.cleanups {
		end()
	}
	logger.Warn("too late")
	require.Empty(t, h.log.String())
}

// A line of a reconcile's own logger is in the test's log under -v, and a warning always.
func TestTheLoggerOfAReconcile(t *testing.T) {
	h := &heard{TB: t}
	RunWith(t, Options{Logger: newLogger(h)}, func(e *Env) {
		m := e.Manager(manager.Options{})
		require.NoError(t, manager.ControllerFor[*corev1.Namespace](m).Complete(func(ctx context.Context, ns *corev1.Namespace) (controller.Result, error) {
			controller.Logger(ctx).Info("hello")
			controller.Logger(ctx).Warn("beware")
			return controller.Result{}, nil
		}))
		Put(e, namespace("shop"))
		e.Start(m)
		require.Contains(t, h.log.String(), "msg=beware controller=namespace request=shop")
		require.Equal(t, testing.Verbose(), strings.Contains(h.log.String(), "msg=hello controller=namespace request=shop"))
		require.NotNil(t, e.Logger())
	})
}

package controller_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllertest"
)

// lockedBuffer is a log that timers write to while the test reads it.
type lockedBuffer struct {
	mu     sync.Mutex // guards buffer
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

// If a reconcile does not return, the log names it once after SlowReconcile, with its request.
// Unfinished names it as long as it runs.
func TestAReconcileThatHangsIsNamed(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		var log lockedBuffer
		pods, release := controller.ClientFor[*corev1.Pod](e.Factory), make(chan struct{})
		end := sync.OnceFunc(func() { close(release) })
		defer end()
		c := newController(e, controller.Objects(pods, func(_ context.Context, p *corev1.Pod) (controller.Result, error) {
			if p.Name == "a" {
				<-release
			}
			return controller.Result{}, nil
		}), controller.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, controller.For(pods.Informer()))
		e.Start(c)
		controllertest.Put(e, pod("b"))
		controllertest.Put(e, pod("a"))
		e.Settle(controller.SlowReconcile - time.Second)
		require.NotContains(e, log.String(), "has not returned")
		require.Empty(e, c.Unfinished())
		e.Settle(20 * time.Hour)
		require.Equal(e, 1, strings.Count(log.String(), "has not returned"), "%s", log.String())
		require.Contains(e, log.String(), `msg="a reconcile has not returned" controller=test request=shop/a`)
		require.Contains(e, log.String(), `for=5s causes="[created pods shop/a]"`)
		require.Equal(e, []string{"reconcile of shop/a for 20h0m4s"}, c.Unfinished())
		end()
		e.Settle(0)
		require.Contains(e, log.String(), `msg="a slow reconcile has returned" controller=test request=shop/a`)
		require.Contains(e, log.String(), `after=20h0m4s`)
		require.Empty(e, c.Unfinished())
	})
}

// Many reconciles that do not return produce few log lines.
func TestManySlowReconcilesAreLoggedRarely(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		var log lockedBuffer
		pods := controller.ClientFor[*corev1.Pod](e.Factory)
		c := newController(e, controller.Func(func(context.Context, controller.Request) (controller.Result, error) {
			time.Sleep(10 * time.Second)
			return controller.Result{Requeue: true}, nil
		}), controller.Options{Concurrency: 10, Logger: slog.New(slog.NewTextHandler(&log, nil))}, controller.For(pods.Informer()))
		for _, name := range strings.Split("abcdefghij", "") {
			controllertest.Put(e, pod(name))
		}
		e.Start(c)
		e.Settle(time.Hour)
		lines := strings.Count(log.String(), "has not returned")
		require.Less(e, lines, 20)
		require.Greater(e, lines, 5)
		require.Contains(e, log.String(), "more=")
	})
}

// While a controller stops, it names whatever keeps its Run from returning, however briefly that has
// been running.
func TestReconcileThatKeepsRunFromReturningIsNamed(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		pods, release := controller.ClientFor[*corev1.Pod](e.Factory), make(chan struct{})
		end := sync.OnceFunc(func() { close(release) })
		defer end()
		c := newController(e, controller.Func(func(context.Context, controller.Request) (controller.Result, error) {
			<-release
			return controller.Result{}, nil
		}), controller.Options{}, controller.For(pods.Informer()),
			controller.SourceFunc("stuck", func(_ context.Context, in *controller.Inbox) error {
				in.Synced()
				<-release
				return nil
			}))
		controllertest.Put(e, pod("a"))
		stop := e.Start(c)
		go stop()
		time.Sleep(time.Second)
		synctest.Wait()
		left := c.Unfinished()
		require.Len(e, left, 2)
		require.Regexp(e, `^source stuck \(.*_test.go:\d+\)$`, left[0])
		require.Equal(e, "reconcile of shop/a for 1s", left[1])
		end()
	})
}

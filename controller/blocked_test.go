package controller_test

import (
	"context"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// A watch that delivers nothing is reopened too if the request comes again only after the patience is over, as
// with RequeueAfter.
func TestWatchThatDeliversNothingIsReopenedByALaterRequest(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		controllertest.Put(e, pod("a"))
		var halfOpen atomic.Bool
		from := rest.ResourceFor[*corev1.Pod](e.Client)
		informer := sharedinformer.New[*corev1.Pod](deaf[*corev1.Pod]{from.Source(), &halfOpen}, sharedinformer.Options{})
		e.Start(informer)
		e.Settle(time.Minute)
		pods := controller.NewClient(informer, from)
		calls := 0
		r := controller.Func(func(ctx context.Context, req controller.Request) (controller.Result, error) {
			if calls++; calls == 1 {
				halfOpen.Store(true)
				_, err := pods.Patch(ctx, req.Key, types.MergePatchType, []byte(`{"metadata":{"labels":{"touched":"yes"}}}`))
				return controller.Result{RequeueAfter: 10 * time.Second}, err
			}
			return controller.Result{RequeueAfter: 10 * time.Second}, nil
		})
		c := newController(e, r, controller.Options{Patience: 5 * time.Second}, controller.For(informer))
		watches := informer.Status().Reflector.Watches
		e.Start(c)
		e.Settle(30 * time.Second)
		require.EqualValues(e, 1, c.Status().Stale, "the cache lacked the write")
		p, _ := pods.Get(object.KeyOf(pod("a")))
		require.Equal(e, watches+1, informer.Status().Reflector.Watches, "the dead watch is reopened; labels in the cache: %v", p.Labels)
	})
}

// A controller's status does not wait for an index function that blocks.
func TestStatusDoesNotWaitForABlockedIndexFunction(t *testing.T) {
	controllertest.RunWith(t, controllertest.Options{Tick: -1}, func(e *controllertest.Env) {
		controllertest.Put(e, pod("a"))
		from := rest.ResourceFor[*corev1.Pod](e.Client)
		informer := sharedinformer.New[*corev1.Pod](from.Source(), sharedinformer.Options{})
		pods := controller.NewClient(informer, from)
		var armed atomic.Bool
		entered, release := make(chan struct{}, 10), make(chan struct{})
		sharedinformer.AddIndex(informer, "blocking", func(p *corev1.Pod) []string {
			if armed.Load() {
				entered <- struct{}{}
				<-release
			}
			return nil
		})
		e.Start(informer)
		e.Settle(time.Minute)
		blocked := make(chan struct{})
		r := controller.Func(func(ctx context.Context, req controller.Request) (controller.Result, error) {
			p, ok := pods.Copy(req.Key)
			if !ok {
				return controller.Result{}, nil
			}
			armed.Store(true)
			err := pods.Delete(ctx, p)
			<-entered // the informer applies the deletion
			close(blocked)
			return controller.Result{}, err
		})
		ch := make(chan string)
		c := newController(e, r, controller.Options{}, controller.Channel("bell", ch, func(_ context.Context, name string) ([]controller.Request, error) {
			return []controller.Request{{Key: object.Key{Namespace: "shop", Name: name}}}, nil
		}))
		e.Start(c)
		ch <- "a"
		<-blocked
		ch <- "a"
		stacks := make([]byte, 4<<20)
		has := func(where string) bool {
			return strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), where)
		}
		for !has("ownwrites.(*Barrier).Park(") {
			runtime.Gosched()
		}
		c.Status() // would hang
		armed.Store(false)
		close(release)
	})
}

// A source that fails rarely is called again at once: each failure starts a new back-off.
func TestBackOffOfASourceStartsAgainAfterALongRun(t *testing.T) {
	controllertest.RunWith(t, controllertest.Options{Tick: -1}, func(e *controllertest.Env) {
		var ended time.Time
		var gaps []time.Duration
		s := controller.SourceFunc("stream", func(ctx context.Context, in *controller.Inbox) error {
			if !ended.IsZero() {
				gaps = append(gaps, time.Since(ended))
			}
			in.Synced()
			select {
			case <-time.After(24 * time.Hour): // then the server closes the stream
			case <-ctx.Done():
			}
			ended = time.Now()
			return io.ErrUnexpectedEOF
		})
		c := newController(e, controller.Func(func(context.Context, controller.Request) (controller.Result, error) {
			return controller.Result{}, nil
		}), controller.Options{}, s)
		e.Start(c)
		e.Settle(14 * 24 * time.Hour)
		require.Less(e, gaps[len(gaps)-1], time.Second, "%v", gaps)
	})
}

// A request does not wait for a write in a namespace that the informer no longer watches.
func TestO01_AWriteInANamespaceThatIsWatchedNoLonger(t *testing.T) {
	controllertest.RunWith(t, controllertest.Options{Tick: -1}, func(e *controllertest.Env) {
		controllertest.Put(e, pod("a"))
		r := rest.ResourceFor[*corev1.Pod](e.Client)
		informer := sharedinformer.New[*corev1.Pod](lagging[*corev1.Pod]{r.Source(), by(time.Millisecond)}, sharedinformer.Options{Namespaces: []string{"bank", "shop"}})
		e.Start(informer)
		pods := controller.NewClient(informer, r)
		e.Settle(time.Minute)
		var calls []time.Time
		c := newController(e, controller.Func(func(ctx context.Context, req controller.Request) (controller.Result, error) {
			if calls = append(calls, time.Now()); len(calls) > 1 {
				return controller.Result{}, nil
			}
			_, err := pods.Patch(ctx, req.Key, types.MergePatchType, []byte(`{"metadata":{"labels":{"touched":"yes"}}}`))
			if err == nil {
				err = informer.SetNamespaces([]string{"bank"})
			}
			return controller.Result{RequeueAfter: time.Second}, err
		}), controller.Options{}, controller.For(informer))
		e.Start(c)
		e.Settle(30 * time.Second)
		s := c.Status()
		require.GreaterOrEqual(e, len(calls), 2)
		require.Less(e, calls[len(calls)-1].Sub(calls[0]), 2*time.Second, "it was parked %d times, %d of them until the patience was over", s.ParkedTotal, s.Stale)
	})
}

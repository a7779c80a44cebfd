package conformance_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"runtime"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/test/conformance"
)

// Some lies of informers and registrations.
type (
	nothingFound struct{ *informer }
	listsTwice   struct{ *informer }
	saysSynced   struct{ *informer }
	neverSynced  struct{ *informer }
	versionAhead struct{ *informer }
	waitsForNone struct{ *informer }
	waitsOn      struct{ *informer }
	noIndex      struct{ *informer }
	leavesRun    struct{ *informer }
	outlivesRun  struct{ *informer }
	slowToStop   struct{ *informer }
	runsAnyway   struct{ *informer }
	runsOnce     struct {
		*informer
		ran *atomic.Bool
	}
	tellsNoCause struct{ *informer }
	runPanics    struct{ *informer }
	runLeaks     struct{ *informer }
	runGoes      struct{ *informer }
	runReturns   struct{ *informer }
	runHangs     struct{ *informer }
	listPanics   struct{ *informer }
	listGoes     struct{ *informer }
	writable     struct{ *informer }
	joinPanics   struct {
		*informer
		joined *atomic.Bool
	}

	stays        struct{ registration }
	leavesAtOnce struct{ registration }
	leavesOnce   struct {
		registration
		left *atomic.Bool
	}
	isSynced    struct{ registration }
	isNotSynced struct{ registration }
	lagsNever   struct{ registration }
)

func (nothingFound) Get(types.NamespacedName) (*corev1.Pod, bool) { return nil, false }

func (i listsTwice) List() []*corev1.Pod {
	all := i.informer.List()
	return append(all, all...)
}

func (saysSynced) HasSynced() bool { return true }

func (neverSynced) HasSynced() bool { return false }

func (versionAhead) Version() string { return "999999" }

func (waitsForNone) WaitForVersion(context.Context, string) error { return nil }

func (waitsOn) WaitForVersion(ctx context.Context, _ string) error {
	time.Sleep(2 * time.Minute)
	return context.Cause(ctx)
}

func (noIndex) ByIndex(string) ([]*corev1.Pod, error) { return nil, nil }

func (i leavesRun) Run(ctx context.Context) error {
	go i.informer.Run(ctx)
	<-ctx.Done()
	return nil
}

func (i outlivesRun) Run(ctx context.Context) error {
	go func() {
		<-ctx.Done()
		time.Sleep(time.Minute)
	}()
	return i.informer.Run(ctx)
}

func (i slowToStop) Run(ctx context.Context) error {
	err := i.informer.Run(ctx)
	time.Sleep(10 * time.Second)
	return err
}

func (i runsAnyway) Run(ctx context.Context) error {
	more, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	context.AfterFunc(ctx, func() { time.Sleep(time.Second / 2); cancel() })
	return i.informer.Run(more)
}

func (i runsOnce) Run(ctx context.Context) error {
	if i.ran.Swap(true) {
		<-ctx.Done()
		return nil
	}
	return i.informer.Run(ctx)
}

func (i tellsNoCause) WaitForSync(ctx context.Context) error {
	if i.informer.WaitForSync(ctx) != nil {
		return errors.New("not synced")
	}
	return nil
}

func (runPanics) Run(context.Context) error { panic("on purpose") }

func (runLeaks) Run(context.Context) error {
	go func() { time.Sleep(1000 * time.Hour) }()
	panic("on purpose")
}

func (runGoes) Run(context.Context) error { runtime.Goexit(); return nil }

func (runReturns) Run(context.Context) error { return nil }

func (runHangs) Run(context.Context) error { time.Sleep(1000 * time.Hour); return nil }

func (listPanics) List() []*corev1.Pod { panic("on purpose") }

func (listGoes) List() []*corev1.Pod { runtime.Goexit(); return nil }

func (i joinPanics) AddHandler(h conformance.Handler) (conformance.Registration, error) {
	if i.joined.Swap(true) {
		panic("on purpose")
	}
	return i.informer.AddHandler(h)
}

func (i writable) Write(o *corev1.Pod) {
	if cached, ok := i.Get(types.NamespacedName{Namespace: o.Namespace, Name: o.Name}); ok {
		cached.ResourceVersion = o.ResourceVersion
	}
}

// forgetful is a connection that ignores Retry-After.
type forgetful struct{ net.Conn }

func (c forgetful) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	copy(b, bytes.ReplaceAll(b[:n], []byte("Retry-After:"), []byte("Retry-Never:")))
	return n, err
}

func (stays) Remove() error { return nil }

func (r leavesAtOnce) RemoveAndWait(context.Context) error { return r.Remove() }

func (r leavesOnce) Remove() error {
	if r.left.Swap(true) {
		return errors.New("no such handler")
	}
	return r.registration.Remove()
}

func (isSynced) HasSynced() bool { return true }

func (isNotSynced) HasSynced() bool { return false }

func (lagsNever) Pending() int { return 0 }

package wait

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/sight"
	"github.com/millrace-dev/millrace/object"
)

// tidings tells a waiter that something may have changed. Our own informers report every version they reach,
// and an attached process sends events.
type tidings struct {
	changed chan struct{} // buffered by one
	deaf    chan struct{} // closed when a source of notifications has stopped
	over    chan error    // when a recording ends, once

	stop    context.CancelFunc
	telling sync.WaitGroup
}

// listen starts sending notifications. If informer is not empty, only its events are used.
func listen(ctx context.Context, v *sight.Sight, informer string) *tidings {
	ctx, stop := context.WithCancel(ctx)
	t := &tidings{changed: make(chan struct{}, 1), deaf: make(chan struct{}), over: make(chan error, 1), stop: stop}
	gone := sync.OnceFunc(func() { close(t.deaf) })
	for _, o := range v.Informers {
		t.telling.Go(func() { t.versions(ctx, o.Informer); gone() })
	}
	if v.Flags.To != "" {
		t.telling.Go(func() { t.events(ctx, v, informer); gone() })
	}
	if v.Played != nil {
		t.telling.Go(func() { t.over <- v.Wait(ctx) })
	}
	return t
}

func (t *tidings) close() {
	t.stop()
	t.telling.Wait()
}

func (t *tidings) tell() {
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

// versions sends a notification when an informer has synced, and then for every version that its cache
// reaches, until it stops. A change that arrives after the version was read causes another notification.
func (t *tidings) versions(ctx context.Context, i sight.Informer) {
	defer t.tell()
	for err := i.WaitForSync(ctx); err == nil; {
		rv, known := i.Status().RV, false
		if rv, known = versionAfter(rv); !known {
			return
		}
		t.tell()
		err = i.WaitForRV(ctx, rv)
	}
}

// versionAfter returns the next higher version.
func versionAfter(rv string) (next string, ok bool) {
	if _, err := object.CompareRV(rv, rv); err != nil {
		return "", false
	}
	n, err := strconv.ParseUint(rv, 10, 64)
	return strconv.FormatUint(n+1, 10), err == nil
}

// events sends a notification for each of a process's events, until they end.
func (t *tidings) events(ctx context.Context, v *sight.Sight, informer string) {
	for _, err := range v.Process.Events(ctx, informer, object.Key{}) {
		if err != nil {
			return // the next check reports the error
		}
		t.tell()
	}
}

// next waits until another check makes sense, but no longer than until tick. It reports whether a recording
// has ended.
func (t *tidings) next(ctx context.Context, tick *time.Ticker) (over bool, err error) {
	select {
	case <-t.changed:
	case <-tick.C:
	case <-t.deaf:
		t.deaf = nil
		tick.Reset(askEvery)
	case err := <-t.over:
		return err == nil, err
	case <-ctx.Done():
	}
	return false, nil
}

package wait

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/sight"
	"github.com/millrace-dev/millrace/object"
)

// tidings tell who waits for something that it may have become so. Informers of one's own tell
// of each version that they are complete up to, and a process by its events.
type tidings struct {
	changed chan struct{} // has room for one
	deaf    chan struct{} // closed where somebody tells no more
	over    chan error    // of a recording, once

	stop    context.CancelFunc
	telling sync.WaitGroup
}

// listen listens until the tidings are closed. Informer, if it is not empty, names the one whose
// events are of interest.
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

// versions tells when an informer has synced, and then of each version that its cache is
// complete up to, until it stops. What comes after the next version was read is told again.
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

// versionAfter is the least version that is greater.
func versionAfter(rv string) (next string, ok bool) {
	if _, err := object.CompareRV(rv, rv); err != nil {
		return "", false
	}
	n, err := strconv.ParseUint(rv, 10, 64)
	return strconv.FormatUint(n+1, 10), err == nil
}

// events tells of the events of a process until there are no more.
func (t *tidings) events(ctx context.Context, v *sight.Sight, informer string) {
	for _, err := range v.Process.Events(ctx, informer, object.Key{}) {
		if err != nil {
			return // the next look says why
		}
		t.tell()
	}
}

// next waits until it is worth while to look again, and no longer than until tick. It reports
// whether a recording is over.
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

package simulation

import (
	"context"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// handler is the part of a [recorder] used by deeds.
type handler struct {
	called string
	leave  func(wait bool)
	next   atomic.Int64 // how its next call fails; see mood
	slow   atomic.Int64 // how long each call takes
	closed atomic.Int64 // when it was closed, in Unix nanoseconds; 0 if open
	failed atomic.Int64 // number of failed calls
	in     atomic.Int32 // number of calls in progress
}

// heal makes all subsequent calls succeed.
func (h *handler) heal() {
	h.next.Store(int64(well))
	h.slow.Store(0)
}

// mood is the outcome of a handler call.
type mood int64

const (
	well mood = iota
	panics
	exits
	fails
	blocks
	quits // closes itself
	moods
)

// recorder is a handler that checks, on every call, everything handlers may rely on.
type recorder[T object.Object] struct {
	handler
	member       *member[T]
	registration *sharedinformer.Registration
	patient      bool // its calls take time
	coalesces    bool
	resyncs      bool // it requested them
	synced       atomic.Bool

	mu    sync.Mutex
	known map[object.Key]T
	came  time.Time // when the last change other than a deletion arrived
}

// join adds a handler, and sometimes an index. The bits of N determine the options.
func (m *member[T]) join(s Step) {
	if s.N%8 == 3 && len(m.halves) < 3 {
		m.addIndex()
	}
	r := &recorder[T]{member: m, known: map[object.Key]T{}}
	r.called = name("handler", len(m.heard))
	switch {
	case s.N&1 != 0:
		r.slow.Store(int64(s.N%7) * int64(50*time.Millisecond))
	case s.N%5 == 2:
		r.slow.Store(int64(1+s.N%8) * int64(2*time.Second))
	}
	r.patient = r.slow.Load() > 0
	if s.N%11 == 5 { // on its first call, usually for a cached object
		r.next.Store(int64(panics))
	}
	opts := sharedinformer.HandlerOptions{Name: r.called, OnSync: r.sync}
	if s.N&2 != 0 {
		opts.Lag, r.coalesces = sharedinformer.Coalesce, true
	}
	if s.N&4 != 0 {
		opts.Resync, r.resyncs = time.Duration(11+s.N%89)*time.Second+13*time.Millisecond, true
	}
	m.heard = append(m.heard, r)
	m.play.say(m.called, "%s joins: %+v", r.called, opts)
	r.registration = m.AddHandlerWith(r, opts)
	r.leave = r.close
}

// close removes the handler from its informer.
func (r *recorder[T]) close(wait bool) {
	m := r.member
	r.closed.Store(time.Now().UnixNano()) // no later call may begin, even while CloseAndWait waits
	if !wait {
		r.registration.Close()
		return
	}
	ctx, cancel := context.WithTimeout(m.play.ctx, time.Hour)
	defer cancel()
	if err := r.registration.CloseAndWait(ctx); err != nil {
		m.play.breaks("L07: %s of %s: CloseAndWait: %v", r.called, m.called, err)
	}
	r.closed.Store(time.Now().UnixNano() - 1)
	if r.in.Load() != 0 {
		m.play.breaks("L07: %s of %s is being called after CloseAndWait", r.called, m.called)
	}
}

// sync is called once the initial list is complete.
func (r *recorder[T]) sync() {
	if r.synced.Swap(true) {
		r.member.play.breaks("L18: OnSync of %s of %s was called twice", r.called, r.member.called)
	}
}

// Handle handles one change.
func (r *recorder[T]) Handle(ctx context.Context, e sharedinformer.Event[T]) error {
	p, key := r.member.play, object.KeyOf(e.Object)
	if r.in.Add(1) > 1 {
		p.breaks("L01: two concurrent calls of %s of %s", r.called, r.member.called)
	}
	defer r.in.Add(-1)
	if at := r.closed.Load(); at != 0 && time.Now().UnixNano() > at {
		p.breaks("L07: %s of %s received %s after it was closed", r.called, r.member.called, key)
	}
	p.events.Add(1)
	p.say(r.member.called+" "+r.called, "%s %s@%s initial %v unknown %v", e.Type, key, e.Object.GetResourceVersion(), e.Initial, e.FinalStateUnknown)
	r.hear(key, e)
	time.Sleep(time.Duration(r.slow.Load()))
	return r.feel(ctx)
}

// feel ends a call as the current mood dictates.
func (r *recorder[T]) feel(ctx context.Context) error {
	now := mood(r.next.Swap(int64(well)))
	if now == panics || now == exits || now == fails {
		r.failed.Add(1)
	}
	switch now {
	case panics:
		panic(errPlanned)
	case exits:
		runtime.Goexit()
	case fails:
		return errPlanned
	case blocks:
		select {
		case <-ctx.Done():
		case <-time.After(90 * time.Second):
		}
	case quits:
		r.registration.Close()
		r.closed.Store(time.Now().UnixNano() - 1)
	}
	return nil
}

// hear checks one event and records it.
func (r *recorder[T]) hear(key object.Key, e sharedinformer.Event[T]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, has := r.known[key]
	complain := func(law, format string, args ...any) {
		args = append([]any{law, r.called, r.member.called, e.Type, key, e.Object.GetResourceVersion()}, args...)
		r.member.play.breaks("%s: %s of %s received %s %s@%s, "+format, args...)
	}
	restored := r.member.play.restored.Load() > 0
	if r.synced.Load() && e.Initial && r.member.form.Namespaces == 0 {
		complain("L18", "from the initial list, after that was complete")
	}
	switch e.Type {
	case sharedinformer.Add:
		if has {
			complain("L03", "which it knows")
		}
	case sharedinformer.Update, sharedinformer.Resync:
		switch {
		case !has:
			complain("L03", "which it does not know")
		case known.GetUID() != e.Object.GetUID():
			complain("L04", "which is another object than the %s that it knows", known.GetUID())
		case e.Type == sharedinformer.Update && any(e.Old) != any(known):
			complain("L03", "from %s, and knows %s", version(e.Old), version(known))
		case !restored && number(known.GetResourceVersion()) > number(e.Object.GetResourceVersion()):
			complain("L01", "and knows %s", version(known))
		case !restored && e.Type == sharedinformer.Update && known.GetResourceVersion() == e.Object.GetResourceVersion() &&
			reflect.DeepEqual(known, e.Object): // with different defaults, the same version has different content
			complain("L17", "which it knows")
		case e.Type == sharedinformer.Resync && !r.resyncs:
			complain("L11", "and did not request resyncs")
		case e.Type == sharedinformer.Resync && known.GetResourceVersion() != e.Object.GetResourceVersion():
			complain("L11", "and knows %s", version(known))
		case e.Type == sharedinformer.Resync && !r.synced.Load():
			complain("L11", "before it is synced")
		}
	case sharedinformer.Delete:
		switch {
		case !has:
			complain("L03", "which it does not know")
		case known.GetUID() != e.Object.GetUID():
			complain("L04", "which is another object than the %s that it knows", known.GetUID())
		case !restored && !r.coalesces && r.member.form.Namespaces == 0 && e.FinalStateUnknown != (e.Object.GetResourceVersion() == known.GetResourceVersion()):
			complain("L03", "knows %s, and FinalStateUnknown is %v", version(known), e.FinalStateUnknown)
		}
		// Lists take time, and changes from a watch may arrive at the same instant. If a newer list has since
		// replaced the object in the queue, such a change finds a different object under its key.
		ofList := e.Received.Equal(r.came) && !r.came.IsZero() && e.DecodedAfter > 0
		if e.FinalStateUnknown && ofList && !restored && !r.coalesces && r.member.form.Namespaces == 0 {
			complain("L02", "which a list found, behind what the list had")
		}
		if now, cached := r.member.Cache().Get(key); cached && now.GetUID() == e.Object.GetUID() && !r.patient && !restored && r.member.form.Namespaces == 0 && !r.member.form.Selected {
			complain("L05", "which is cached")
		}
	}
	if e.Type == sharedinformer.Delete {
		delete(r.known, key)
		return
	}
	r.known[key], r.came = e.Object, e.Received
	if now, cached := r.member.Cache().Get(key); cached && !restored && now.GetUID() == e.Object.GetUID() &&
		number(now.GetResourceVersion()) < number(e.Object.GetResourceVersion()) {
		complain("L05", "and the cache is at %s", version(now))
	}
	if err := whole(r.member.form, e.Object); err != nil {
		complain("W01", "%v", err)
	}
}

// holds returns the objects known to the handler.
func (r *recorder[T]) holds() map[object.Key]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	held := map[object.Key]string{}
	for key, o := range r.known {
		held[key] = version(o)
	}
	return held
}

package reflector

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// errGained ends a watch when more of the source is wanted. It is no failure.
var errGained = errors.New("more is wanted; a list of that follows")

// Narrowing says which objects of a source are wanted, where that changes while it is
// reflected. Its methods may be called from any goroutine.
type Narrowing interface {
	// Turn counts the changes by which more came to be wanted.
	Turn() uint64

	// Narrow has a request ask for the objects that are wanted now and were not at a turn; if that is
	// 0, for all that are wanted. The request follows later changes. Away, if not nil, returns the
	// objects that the list or the initial events have shown although they are not wanted, as far as
	// the consumer should know.
	Narrow(req *source.Request, since uint64) (away func() []object.Version)
}

// share is which part of the source is reflected.
type share struct {
	by     Narrowing // nil where all of the source is wanted
	began  uint64    // the turn at which the attempt in progress began
	listed uint64    // the turn at which the last list that is queued began
	away   func() []object.Version
	rested time.Time // until when the lists of what has come are paid for (see restToGain)
}

// Narrow has the reflector reflect a part of its source. It must be called before Run.
//
// Each turn of by is followed by a list, a consistent read that begins behind it, of what
// has come to be wanted; Gained must be called to tell. The queue is told of it as
// deltafifo.Gained, with the version of the list, and the watch goes on from where it was:
// what it tells of the gained objects up to that version is old, and the consumer must
// leave it out. If versions cannot be compared, or an earlier list has not been taken from the
// queue, all is listed. The consumer leaves out objects that are no longer wanted, also those that
// are queued already.
func (r *Reflector) Narrow(by Narrowing) {
	r.share.by = by
	r.opts.Consistent = true
}

// Gained tells that more is wanted. It may be called from anywhere.
func (r *Reflector) Gained() {
	if end := r.endWatch.Load(); end != nil {
		(*end)(errGained)
	}
}

// turn is the count of changes now; 0 where all of the source is wanted.
func (r *Reflector) turn() uint64 {
	if r.share.by == nil {
		return 0
	}
	return r.share.by.Turn()
}

// request asks for the objects that are wanted now and were not at a turn. Known objects are taken back
// unless the history went back. Those of an earlier state are known as long as there is no other.
func (r *Reflector) request(opts metav1.ListOptions, since uint64) source.Request {
	req := source.Request{ListOptions: opts, Namespace: r.opts.Namespace, Packer: r.opts.Packer, Known: r.opts.Known}
	switch {
	case r.anew:
		req.Known = nil
	case r.earlier != nil && r.earlier.spent:
		req.Known = r.earlier.knows()
	}
	r.share.away = nil
	if r.share.by != nil {
		r.share.away = r.share.by.Narrow(&req, since)
	}
	return req
}

// part is what the consumer is to know of a list that began at the turn of the attempt in
// progress; nil where all of the source is wanted.
func (r *Reflector) part(at string) *deltafifo.Part {
	if r.share.by == nil {
		return nil
	}
	p := &deltafifo.Part{Turn: r.share.began, At: at}
	if r.share.away != nil {
		p.Away = r.share.away()
	}
	return p
}

// So many lists of what has come are made in a row, and then one each time.
const (
	gainsInARow = 20
	gainsEvery  = 500 * time.Millisecond
)

// restToGain waits until what has come may be listed, where that happens without end.
func (r *Reflector) restToGain(ctx context.Context) {
	now := time.Now()
	if r.share.rested.Before(now) {
		r.share.rested = now
	}
	r.share.rested = r.share.rested.Add(gainsEvery)
	rest := r.share.rested.Sub(now) - gainsInARow*gainsEvery
	if rest <= 0 {
		return
	}
	wait := time.NewTimer(rest)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-ctx.Done():
	}
}

// gaining says where to go on instead, if more is wanted than was listed.
func (r *Reflector) gaining(ctx context.Context, next State, fail *failure.Failure) (State, *failure.Failure) {
	if fail != nil && errors.Is(fail.Err, errGained) {
		fail = nil
	}
	if next != Watching || r.turn() == r.share.listed {
		return next, fail
	}
	r.restToGain(ctx)
	waits, _ := r.queue.ListWaits("") // a whole list supersedes it
	if _, err := object.CompareRV(r.rv, r.rv); err != nil || r.unordered.Load() || waits {
		return Listing, fail
	}
	return Gaining, fail
}

// gain lists what has come to be wanted, and queues it. The watch goes on from where it was.
func (r *Reflector) gain(ctx context.Context) *failure.Failure {
	r.update(func(s *Status) { s.Lists++ })
	began := time.Now()
	items, rv, fail := r.read(ctx, r.share.listed)
	switch {
	case fail != nil:
		return fail
	case r.wentBack(rv):
		return &failure.Failure{Phase: failure.PhaseList, Err: fmt.Errorf("a list at %s after %s: %w", rv, r.rv, errBack)}
	}
	now := time.Now()
	r.queue.Add(deltafifo.Delta{Type: deltafifo.Gained, Items: items, Part: r.part(rv), Received: began, Decoded: now, Queued: now})
	r.share.listed, r.unpaged = r.share.began, false
	r.succeeded()
	return nil
}

// pass queues that an object has changed that is not wanted. Its RV counts as seen then.
func (r *Reflector) pass(e wire.Event[object.Head]) *failure.Failure {
	p := e.Passed
	switch {
	case p.RV == "":
		return &failure.Failure{Phase: failure.PhaseDecode, Key: p.Key, Err: ErrNoRV}
	case e.Type != watch.Added && e.Type != watch.Modified && e.Type != watch.Deleted:
		return unknownEvent(e.Type)
	}
	r.hear(p.RV, e.Received)
	d := deltafifo.Delta{
		Type: deltafifo.Passed, Key: p.Key, Received: e.Received, Decoded: e.Decoded,
		Part: &deltafifo.Part{Away: []object.Version{*p}, Gone: e.Type == watch.Deleted},
	}
	if d.Late = !r.ahead(p.RV); !d.Late {
		d.RV, r.rv = p.RV, p.RV
	}
	r.queue.Add(d)
	r.update(func(s *Status) {
		s.RV, s.Attempts = r.rv, 0
		s.Passed++
	})
	return nil
}

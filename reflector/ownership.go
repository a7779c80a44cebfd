package reflector

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// Ownership says which objects of a source the consumer owns, where that changes while they are
// reflected. After each gain, which Relist(nil) announces, the owned objects are listed anew by a
// consistent read that begins after it. The consumer drops the objects that it no longer owns,
// those too that are queued already. All methods may be called from any goroutine.
type Ownership interface {
	// Gains counts the changes by which objects came to be owned.
	Gains() uint64

	// Select has a request ask for the objects that are owned, and follow later changes. If the
	// request begins with a list, away, if not nil, returns the objects that the list has shown
	// although they are not owned, as far as the consumer should know.
	Select(req *source.Request, lists bool) (away func() []object.Version)
}

// owned is which objects of the source are reflected.
type owned struct {
	began  uint64 // the gains before the attempt in progress
	listed uint64 // the gains before the last list that is queued
	away   func() []object.Version
	ended  map[object.Version]bool // objects, without their RV, that were deleted while owned, in the streaming list of the attempt
}

// gains is the count of gains now; 0 where all objects are reflected.
func (r *Reflector) gains() uint64 {
	if r.opts.Ownership == nil {
		return 0
	}
	return r.opts.Ownership.Gains()
}

// request asks for the objects to reflect. Known objects are taken back unless the history went
// back. Those of an earlier state are known as long as there is no other. Lists says that the
// request is a list, or begins with one.
func (r *Reflector) request(opts metav1.ListOptions, lists bool) source.Request {
	req := source.Request{ListOptions: opts, Namespace: r.opts.Namespace, Packer: r.opts.Packer, Known: r.opts.Known}
	switch {
	case r.newHistory:
		req.Known = nil
	case r.resuming != nil && r.resuming.abandoned:
		req.Known = r.resuming.indexKnown()
	}
	if r.opts.Ownership != nil {
		r.owned.away, r.owned.ended = r.opts.Ownership.Select(&req, lists), map[object.Version]bool{}
	}
	return req
}

// deltaPart is what the consumer is to know of the list of the attempt in progress; nil where all
// objects are reflected.
func (r *Reflector) deltaPart() *deltafifo.Part {
	if r.opts.Ownership == nil {
		return nil
	}
	p := &deltafifo.Part{Gains: r.owned.began}
	if r.owned.away != nil {
		p.Away = slices.DeleteFunc(r.owned.away(), func(v object.Version) bool {
			return r.owned.ended[object.Version{Key: v.Key, UID: v.UID}]
		})
	}
	return p
}

// noteGathered takes note of an event of a streaming list. An object that was away and has come back may be deleted
// before the end of the list, which is no move then.
func (r *Reflector) noteGathered(e wire.Event[object.Head]) {
	if r.owned.away != nil && e.Type == watch.Deleted && e.Passed == nil {
		v := object.VersionOf(e.Object).Clone()
		r.owned.ended[object.Version{Key: v.Key, UID: v.UID}] = true
	}
}

// queuePassed queues that an object has changed that is not wanted. Its RV counts as seen then.
func (r *Reflector) queuePassed(e wire.Event[object.Head]) *failure.Failure {
	p := e.Passed
	switch {
	case p.RV == "":
		return &failure.Failure{Phase: failure.PhaseDecode, Key: p.Key, Err: ErrNoRV}
	case e.Type != watch.Added && e.Type != watch.Modified && e.Type != watch.Deleted:
		return unknownEvent(e.Type)
	}
	r.noteReceived(p.RV, e.Received)
	d := deltafifo.Delta{
		Type: deltafifo.Passed, Key: p.Key, Received: e.Received, Decoded: e.Decoded,
		Part: &deltafifo.Part{Away: []object.Version{*p}, Gone: e.Type == watch.Deleted},
	}
	if d.Late = !r.isNewer(p.RV); !d.Late {
		d.RV, r.rv = p.RV, p.RV
	}
	r.queue.Add(d)
	r.update(func(s *Status) {
		s.RV, s.Attempts = r.rv, 0
		s.Passed++
	})
	return nil
}

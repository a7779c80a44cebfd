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

// Ownership decides which of a source's objects belong to the consumer. That set may change while the
// reflector runs. After each gain, which the consumer announces with Relist(nil), the reflector lists the
// owned objects again with a consistent read that starts after the gain. The consumer drops objects that it
// no longer owns, including queued ones. All methods are safe for concurrent use.
type Ownership interface {
	// Gains returns the number of changes that added objects to the set.
	Gains() uint64

	// Select limits a request to the owned objects, taking later changes to the set into account. If the
	// request starts with a list and away is not nil, away returns the listed objects that are not owned but
	// that the consumer needs to know about.
	Select(req *source.Request, lists bool) (away func() []object.Version)
}

// owned tracks which of the source's objects are reflected.
type owned struct {
	began  uint64 // number of gains before the current attempt
	listed uint64 // number of gains before the last queued list
	away   func() []object.Version
	ended  map[object.Version]bool // objects, without their RV, deleted while owned during the current streaming list
}

// gains returns the current number of gains, or 0 if all objects are reflected.
func (r *Reflector) gains() uint64 {
	if r.opts.Ownership == nil {
		return 0
	}
	return r.opts.Ownership.Gains()
}

// request returns a request for the objects to reflect; lists is true if it is a list or starts with one. The
// source may reuse known objects for a list, unless the history was rolled back. Until a list is queued, objects
// from an abandoned saved state serve as known objects. Other watches reuse none, because the consumer may still
// have the objects of a history that the queued list replaces.
func (r *Reflector) request(opts metav1.ListOptions, lists bool) source.Request {
	req := source.Request{ListOptions: opts, Namespace: r.opts.Namespace, Packer: r.opts.Packer, Known: r.opts.Known}
	switch {
	case r.newHistory, !lists:
		req.Known = nil
	case r.resuming != nil && r.resuming.abandoned:
		req.Known = r.resuming.indexKnown()
	}
	if r.opts.Ownership != nil {
		r.owned.away, r.owned.ended = r.opts.Ownership.Select(&req, lists), map[object.Version]bool{}
	}
	return req
}

// deltaPart returns the ownership data for the current attempt's list, or nil if all objects are reflected.
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

// noteGathered records an event from a streaming list. An object that was lost, regained and then deleted
// before the list ended has not moved.
func (r *Reflector) noteGathered(e wire.Event[object.Head]) {
	if r.owned.away != nil && e.Type == watch.Deleted && e.Passed == nil {
		v := object.VersionOf(e.Object).Clone()
		r.owned.ended[object.Version{Key: v.Key, UID: v.UID}] = true
	}
}

// queuePassed queues a change to an object that is not owned. From then on its RV is treated as seen.
func (r *Reflector) queuePassed(e wire.Event[object.Head]) *failure.Failure {
	p := e.Passed
	switch {
	case noRV(p.RV):
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

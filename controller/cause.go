package controller

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/millrace-dev/millrace/object"
)

// CauseType is the type of a cause.
type CauseType uint8

// Types of causes.
const (
	// Initial means that the object already existed when the source started.
	Initial CauseType = iota + 1
	// Created means that the object is new.
	Created
	// Updated means that the object changed.
	Updated
	// Deleted means that the object was deleted, stopped matching the informer's selectors, or was in a namespace
	// that SetNamespaces removed.
	Deleted
	// Resynced means that nothing changed, but the Options.Resync interval has elapsed.
	Resynced
	// Generic means that the event came from outside the cluster.
	Generic
	// Failed means that the previous reconcile failed.
	Failed
	// Requeued means that the previous reconcile requested this one.
	Requeued
	// Moved means that this process has taken over the object from another one, or that another one has taken over an
	// object that is mapped to this request; see Controller.Share.
	Moved
)

var causeTypes = [...]string{Initial: "initial", Created: "created", Updated: "updated", Deleted: "deleted",
	Resynced: "resynced", Generic: "generic", Failed: "failed", Requeued: "requeued", Moved: "moved"}

// String returns the type's name in lower case.
func (t CauseType) String() string {
	if int(t) < len(causeTypes) && t > 0 {
		return causeTypes[t]
	}
	return "unknown"
}

// urgent reports whether a request with this cause goes ahead of requests that are not urgent.
func (t CauseType) urgent() bool { return t != Initial && t != Resynced && t != Moved }

// Cause is a reason for a reconcile.
type Cause struct {
	Type CauseType
	// Source is the source's name. It is empty for Failed and Requeued causes.
	Source string
	// Object is the key of the object that changed. For Failed and Requeued causes it is the request's
	// own key.
	Object object.Key
}

// String returns the type, source and object, such as "updated pods shop/web-0".
func (c Cause) String() string {
	s := c.Type.String()
	if c.Source != "" {
		s += " " + c.Source
	}
	return s + " " + object.FormatKey(c.Object)
}

// maxCauses limits the causes kept for one reconcile.
const maxCauses = 8

// causes tracks the causes of each queued request.
type causes struct {
	mu   sync.Mutex // guards the fields below; no other code is called while it is held
	of   map[Request]reasons
	most int // the largest len(of) since of was allocated
}

// reasons holds the causes of one request. Most requests have a single cause, a change to their own object,
// and need no slice.
type reasons struct {
	source    fmt.Stringer
	others    *[]Cause // nil if the only cause is a change to the request's own object
	placement placement
	typ       CauseType
	urgent    bool // at least one cause is urgent
}

// priority returns the request's priority in the queue.
func (r reasons) priority() int {
	if r.urgent {
		return 0
	}
	return InitialPriority
}

// add adds a cause for req, and req's placement if known. If the request was requeued by a
// reconcile, the placement may be outdated, so it never replaces one from a source.
func (c *causes) add(req Request, typ CauseType, source fmt.Stringer, about object.Key, at placement, urgent bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, known := c.of[req]
	again := typ == Failed || typ == Requeued
	if !at.known || again && r.placement.known {
		at.hash, at.known = r.placement.hash, r.placement.known
	}
	if at.existence == noEvent || again && r.placement.existence != noEvent {
		at.existence = r.placement.existence
	}
	urgent = urgent || r.urgent
	switch {
	case !known && about == req.Key:
		r = reasons{typ: typ, source: source}
	case !known:
		r = reasons{others: &[]Cause{newCause(typ, source, about)}}
	case r.typ == typ && r.source == source && about == req.Key && r.placement == at && r.urgent == urgent:
		return
	case r.typ == typ && r.source == source && about == req.Key:
	default:
		if r.others == nil {
			r.others = new([]Cause)
		}
		if cause := newCause(typ, source, about); len(*r.others) < maxCauses-1 && !slices.Contains(*r.others, cause) {
			*r.others = append(*r.others, cause)
		}
	}
	if c.of == nil {
		c.of = make(map[Request]reasons)
	}
	r.placement, r.urgent = at, urgent
	c.of[req] = r
	c.most = max(c.most, len(c.of))
}

// placement returns req's placement, if known.
func (c *causes) placement(req Request) placement {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of[req].placement
}

// priority returns the priority for requeueing req if its causes have not been taken yet.
func (c *causes) priority(req Request) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reasons(req).priority()
}

// reasons returns the causes of req. A request without causes is treated as urgent: its causes arrived
// while it was being handed out, so the previous reconcile took them. The caller holds mu.
func (c *causes) reasons(req Request) reasons {
	r, has := c.of[req]
	if !has {
		r.urgent = true
	}
	return r
}

// requests returns the requests that have causes: those that are queued.
func (c *causes) requests() []Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.of))
}

// take removes and returns the causes of req.
func (c *causes) take(req Request) reasons {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.reasons(req)
	c.remove(req)
	return r
}

// drop removes the causes of req if its placement is still told. Otherwise, an event has arrived in the meantime,
// and the request is queued again.
func (c *causes) drop(req Request, told placement) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of[req].placement == told {
		c.remove(req)
	}
}

// remove removes the causes of req. The caller holds mu.
func (c *causes) remove(req Request) {
	delete(c.of, req)
	if len(c.of) == 0 && c.most > 1000 { // maps never shrink
		c.of, c.most = nil, 0
	}
}

// list returns the causes, oldest first.
func (r reasons) list(req Request) []Cause {
	var all []Cause
	if r.typ != 0 {
		all = append(all, newCause(r.typ, r.source, req.Key))
	}
	if r.others != nil {
		all = append(all, *r.others...)
	}
	return all
}

func newCause(typ CauseType, source fmt.Stringer, about object.Key) Cause {
	c := Cause{Type: typ, Object: about}
	if source != nil {
		c.Source = source.String()
	}
	return c
}

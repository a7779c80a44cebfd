package controller

import (
	"fmt"
	"slices"
	"sync"

	"github.com/millrace-dev/millrace/object"
)

// CauseType says what happened.
type CauseType uint8

// The types of causes.
const (
	// Initial: the object was there when the source began.
	Initial CauseType = iota + 1
	// Created: the object is new.
	Created
	// Updated: the object changed.
	Updated
	// Deleted: the object is gone.
	Deleted
	// Resynced: nothing happened, but Options.Resync is over.
	Resynced
	// Generic: something outside the cluster happened.
	Generic
	// Failed: the reconcile before ended with an error.
	Failed
	// Requeued: the reconcile before asked for it.
	Requeued
	// Moved: the object was another process's, and is ours now; see Controller.Share.
	Moved
)

var causeTypes = [...]string{Initial: "initial", Created: "created", Updated: "updated", Deleted: "deleted",
	Resynced: "resynced", Generic: "generic", Failed: "failed", Requeued: "requeued", Moved: "moved"}

// String names the type in lower case.
func (t CauseType) String() string {
	if int(t) < len(causeTypes) && t > 0 {
		return causeTypes[t]
	}
	return "unknown"
}

// urgent reports whether a request of this cause goes before the others.
func (t CauseType) urgent() bool { return t != Initial && t != Resynced && t != Moved }

// Cause is one reason for a reconcile.
type Cause struct {
	Type CauseType
	// Source is the name of the source; empty for Failed and Requeued.
	Source string
	// Object is what it happened to; the request's own key for Failed and
	// Requeued.
	Object object.Key
}

// String gives type, source and object: "updated pods shop/web-0".
func (c Cause) String() string {
	s := c.Type.String()
	if c.Source != "" {
		s += " " + c.Source
	}
	return s + " " + object.FormatKey(c.Object)
}

// maxCauses is how many causes of one reconcile are kept.
const maxCauses = 8

// causes keeps why each request waits until it is handed out.
type causes struct {
	mu   sync.Mutex // guards all below; nothing is called while it is held
	of   map[Request]reasons
	most int // the largest len(of) since of was made
}

// reasons are the causes of one request. Most requests have one, and most of
// these are about the object that the request names.
type reasons struct {
	source    fmt.Stringer
	others    *[]Cause // the first too, where it is about another object
	placement placement
	typ       CauseType
	urgent    bool // one of them goes before requests of initial lists
}

// priority is that of the request in the queue.
func (r reasons) priority() int {
	if r.urgent {
		return 0
	}
	return InitialPriority
}

// add notes a cause of req, and where req belongs, if the cause tells. What a reconcile
// asks for again may be another one by now: where that belongs, others have said.
func (c *causes) add(req Request, typ CauseType, source fmt.Stringer, about object.Key, at placement, urgent bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, known := c.of[req]
	again := typ == Failed || typ == Requeued
	if !at.known || again && r.placement.known {
		at = r.placement
	}
	if at.existence == noEvent {
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

// placement returns where req belongs, as far as its causes tell.
func (c *causes) placement(req Request) placement {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of[req].placement
}

// priority returns that with which req is queued again before anybody took its causes.
func (c *causes) priority(req Request) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reasons(req).priority()
}

// reasons are those of req. A request without any is no initial one: what came while it was
// handed out went with the reconcile before. It is called under mu.
func (c *causes) reasons(req Request) reasons {
	r, has := c.of[req]
	if !has {
		r.urgent = true
	}
	return r
}

// take returns the causes of req and forgets them.
func (c *causes) take(req Request) reasons {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.reasons(req)
	delete(c.of, req)
	if len(c.of) == 0 && c.most > 1000 { // a map does not shrink
		c.of, c.most = nil, 0
	}
	return r
}

// list returns the causes in the order in which they came.
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

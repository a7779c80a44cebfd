package apiservertest

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Fault is a rule that selects requests and applies actions to them.
//
//	srv.Faults().Add(apiservertest.Fault{
//		Verb: "list", Resource: "pods", Count: 3,
//		Do: []apiservertest.Action{apiservertest.Fail{Code: 500}},
//	})
//
// The actions of every rule that selects a request apply to it.
type Fault struct {
	// Name identifies the fault in Stats. It defaults to the types of the actions.
	Name string

	Verb     string // as in RBAC; empty means every verb
	Resource string // plural name; empty means every resource and requests without one

	// Skip is the number of matching requests to let through first. After that, one in Every requests is
	// a candidate (all if zero) and is hit with Probability (always if zero), until Count requests have
	// been hit (no limit if zero).
	Skip        int
	Every       int
	Count       int
	Probability float64

	Do []Action
}

// Action is an effect that a [Fault] has on a request. Frames are the events of a watch or the items of a
// list, counted from 0.
type Action interface{ apply(*plan) }

// Delay delays the response.
type Delay struct{ For time.Duration }

// Cut breaks the connection after AfterBytes bytes of the body. If that is zero, there is no response at
// all. In that case net/http retries a GET on a reused connection by itself, so its caller may not
// notice.
type Cut struct{ AfterBytes int64 }

// Fail responds with an error. Reason and Message default to those for the code. RetryAfter, in seconds or
// as an HTTP date, is sent unchanged.
type Fail struct {
	Code       int
	Reason     metav1.StatusReason
	Message    string
	RetryAfter string
}

// Answer responds with Body, as JSON unless a Header says otherwise. The server does
// not handle the request.
type Answer struct {
	Code int // default http.StatusOK
	Body []byte
}

// Header sets a header field of the response to Values, overriding the server and other
// faults. If Values is empty, it removes the field.
type Header struct {
	Name   string
	Values []string
}

// Compacted compacts the history before the request is served; see Server.Compact.
type Compacted struct{}

// Garble flips bytes in a frame.
type Garble struct{ Frame int }

// Alter changes the response body at byte At, counted from 0 in the original body: Flip is XORed into
// that byte, then Cut bytes from there on are replaced with Insert. The response still ends normally, so
// the change can only be noticed by reading the body, and the altered body may even be another valid
// object. If several Alters apply to one response, they are applied in order of At; of those with the
// same At, only the first one is.
type Alter struct {
	At     int64
	Flip   byte
	Cut    int64
	Insert []byte
}

// Truncate sends half of a frame and then ends the response normally.
type Truncate struct{ Frame int }

// Oversize sends a frame of Size bytes instead of the real one.
type Oversize struct {
	Frame int
	Size  int
}

// WrongType sends a ComponentStatus instead of the real object. In a protobuf list, whose items have no
// kind, it sends an item that cannot be decoded as any type.
type WrongType struct{ Frame int }

// NoBookmarks suppresses periodic bookmarks.
type NoBookmarks struct{}

// RepeatBookmarks repeats each periodic bookmark Times times.
type RepeatBookmarks struct{ Times int }

// BareBookmarks sends bookmarks without a resource version.
type BareBookmarks struct{}

// Duplicate sends every Every-th frame twice.
type Duplicate struct{ Every int }

// Silence stops sending after some frames but keeps the connection open. If that is zero frames, not
// even the header is sent.
type Silence struct{ AfterFrames int }

// WithholdEnd never sends the bookmark that ends a streaming list.
type WithholdEnd struct{}

// ErrorEvent ends a watch with an ERROR event after AfterFrames frames, or immediately if that is zero.
type ErrorEvent struct {
	AfterFrames int
	Status      metav1.Status
}

// Raw sends Bytes unchanged after AfterFrames frames of a watch, or immediately if that is zero. The watch
// then continues.
type Raw struct {
	AfterFrames int
	Bytes       []byte
}

// plan combines all actions for one request. Negative numbers mean never.
type plan struct {
	delay           time.Duration
	compact         bool
	fail            *Fail
	answer          *Answer
	headers         []Header
	raws            []Raw
	cutAfter        int64
	alters          []Alter
	garbleAt        int
	endAt           int
	oversizeAt      int
	oversize        int
	wrongTypeAt     int
	noBookmarks     bool
	repeatBookmarks int
	bareBookmarks   bool
	duplicateEvery  int
	silentAt        int
	withholdEnd     bool
	errorAt         int
	errorStatus     metav1.Status
}

func (a Delay) apply(p *plan)           { p.delay += a.For }
func (a Cut) apply(p *plan)             { p.cutAfter = a.AfterBytes }
func (a Fail) apply(p *plan)            { p.fail = &a }
func (a Answer) apply(p *plan)          { p.answer = &a }
func (a Header) apply(p *plan)          { p.headers = append(p.headers, a) }
func (a Raw) apply(p *plan)             { p.raws = append(p.raws, a) }
func (a Compacted) apply(p *plan)       { p.compact = true }
func (a Garble) apply(p *plan)          { p.garbleAt = a.Frame }
func (a Alter) apply(p *plan)           { p.alters = append(p.alters, a) }
func (a Truncate) apply(p *plan)        { p.endAt = a.Frame }
func (a Oversize) apply(p *plan)        { p.oversizeAt, p.oversize = a.Frame, a.Size }
func (a WrongType) apply(p *plan)       { p.wrongTypeAt = a.Frame }
func (a NoBookmarks) apply(p *plan)     { p.noBookmarks = true }
func (a RepeatBookmarks) apply(p *plan) { p.repeatBookmarks = a.Times }
func (a BareBookmarks) apply(p *plan)   { p.bareBookmarks = true }
func (a Duplicate) apply(p *plan)       { p.duplicateEvery = max(1, a.Every) }
func (a Silence) apply(p *plan)         { p.silentAt = a.AfterFrames }
func (a WithholdEnd) apply(p *plan)     { p.withholdEnd = true }
func (a ErrorEvent) apply(p *plan)      { p.errorAt, p.errorStatus = a.AfterFrames, a.Status }

// status returns the response body.
func (a Fail) status() metav1.Status {
	reasons := map[int]metav1.StatusReason{
		http.StatusUnauthorized:        metav1.StatusReasonUnauthorized,
		http.StatusForbidden:           metav1.StatusReasonForbidden,
		http.StatusNotFound:            metav1.StatusReasonNotFound,
		http.StatusConflict:            metav1.StatusReasonConflict,
		http.StatusGone:                metav1.StatusReasonExpired,
		http.StatusTooManyRequests:     metav1.StatusReasonTooManyRequests,
		http.StatusInternalServerError: metav1.StatusReasonInternalError,
		http.StatusServiceUnavailable:  metav1.StatusReasonServiceUnavailable,
		http.StatusGatewayTimeout:      metav1.StatusReasonTimeout,
	}
	return metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    int32(a.Code),
		Reason:  cmp.Or(a.Reason, reasons[a.Code]),
		Message: cmp.Or(a.Message, fmt.Sprintf("fault: %d %s", a.Code, http.StatusText(a.Code))),
	}
}

// Faults holds the fault rules of a server. They may be changed at any time; the faults for a request are
// determined when it arrives. All methods are safe for concurrent use.
//
// The outcome of a Probability depends on the seed, the rule, the client and its request (User-Agent, verb
// and path), and on how many times that request was made before. Skip, Every and Count apply to requests
// in order of arrival. If several clients send requests simultaneously, that order is up to the scheduler.
type Faults struct {
	mu    sync.Mutex
	rules []*rule
	dice  *dice
	next  FaultID
}

// FaultID identifies a rule of [Faults].
type FaultID int

type rule struct {
	Fault
	id   FaultID
	seen int
	hit  int
}

func newFaults(seed uint64) *Faults {
	return &Faults{dice: newDice(seed, "faults")}
}

// Add adds a rule.
func (f *Faults) Add(fault Fault) FaultID {
	if fault.Name == "" {
		for i, action := range fault.Do {
			if i > 0 {
				fault.Name += "+"
			}
			fault.Name += reflect.TypeOf(action).Name()
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next++
	f.rules = append(f.rules, &rule{Fault: fault, id: f.next})
	return f.next
}

// Remove removes a rule and returns the number of requests it has hit.
func (f *Faults) Remove(id FaultID) (hits int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = slices.DeleteFunc(f.rules, func(r *rule) bool {
		if r.id == id {
			hits = r.hit
		}
		return r.id == id
	})
	return hits
}

// Clear removes all rules.
func (f *Faults) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = nil
}

// plan determines the faults that apply to one request.
func (f *Faults) plan(c *call) *plan {
	p := &plan{cutAfter: -1, garbleAt: -1, endAt: -1, oversizeAt: -1, wrongTypeAt: -1, silentAt: -1, errorAt: -1}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.rules {
		if r.Verb != "" && r.Verb != c.verb || r.Resource != "" && r.Resource != c.resource || !f.fires(r, c) {
			continue
		}
		r.hit++
		c.server.stats.fault(r.Name)
		for _, action := range r.Do {
			action.apply(p)
		}
	}
	return p
}

// fires counts a matching request and reports whether r hits it.
func (f *Faults) fires(r *rule, c *call) bool {
	r.seen++
	if r.seen <= r.Skip || r.Count > 0 && r.hit >= r.Count {
		return false
	}
	if r.Every > 1 && (r.seen-r.Skip)%r.Every != 0 {
		return false
	}
	if r.Probability == 0 {
		return true
	}
	return f.dice.of(fmt.Sprint(r.id, c.r.UserAgent(), c.verb, c.r.URL.Path)).Float64() < r.Probability
}

// dice is a random source. A number depends on the seed, on its subject, and on how many numbers were
// drawn for that subject before, but not on those drawn for other subjects, so goroutine scheduling does
// not matter. The owner must guard it.
type dice struct {
	seed  uint64
	kind  string
	drawn map[uint64]uint64 // number of draws, keyed by the subject's hash, since a server sees many names
}

func newDice(seed uint64, kind string) *dice {
	return &dice{seed: seed, kind: kind, drawn: map[uint64]uint64{}}
}

// of returns a random number generator for a subject, a different one on each call.
func (d *dice) of(subject string) *rand.Rand {
	hash := fnv.New64a()
	fmt.Fprintf(hash, "%s\x00%s\x00", d.kind, subject)
	of := hash.Sum64()
	fmt.Fprint(hash, d.drawn[of])
	d.drawn[of]++
	return rand.New(rand.NewPCG(d.seed, hash.Sum64()))
}

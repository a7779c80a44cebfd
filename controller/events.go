package controller

import (
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"strings"
	"sync"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
)

// The defaults of EventOptions.
const (
	DefaultEventLimit = 1000
	DefaultEventFlush = 5 * time.Second
)

const (
	eventWindow = 6 * time.Minute // without a repetition, after which a series is over
	eventNotes  = 10              // different notes of one happening that are events of their own
)

// EventOptions configure Events. The zero value works.
type EventOptions struct {
	// Instance tells the processes of one controller apart. Default the host's
	// name.
	Instance string

	// Limit is how many events wait at most to be sent, and how many are known at
	// most that were sent and may repeat. An event that comes while Limit wait is
	// dropped and counted. Default DefaultEventLimit.
	Limit int

	// Flush is how long Run goes on at most after its context is done, to send
	// what is left. Default DefaultEventFlush.
	Flush time.Duration

	// Logger hears of events that cannot be sent. Nil is silent.
	Logger *slog.Logger
}

// Event is something to tell the user about an object.
type Event struct {
	Type    string        // corev1.EventTypeNormal or EventTypeWarning; all else is Normal
	Reason  string        // why, in one word: "ScalingReplicaSet"
	Action  string        // what was done or failed, in one word: "Scale"; empty is Reason
	Note    string        // for people; cut to 1 KiB
	Related object.Object // another object that it is about; nil if there is none
}

// Events records events of events.k8s.io/v1. What repeats within 6 minutes (same
// object, type, reason, action, note and related object) is one event that counts
// (a series), which is written once a minute at most. Of one happening, 10 different
// notes are events of their own; what differs from all of them in the note alone
// counts as one more.
//
// To record blocks nobody and fails for nobody. What cannot be sent is tried again
// for 10 minutes after it was recorded last, with pauses of up to a minute. What is dropped is counted and
// logged. Its methods may be called from any goroutine.
// https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/
type Events struct {
	controller string
	opts       EventOptions
	scheme     *runtime.Scheme
	resource   *rest.Resource[*eventsv1.Event]
	wake       chan struct{} // a token: there is something to create

	complaint complaint // of events that were not sent

	// unwritten is a series that was forgotten while the context of Run ended: flush is to write
	// its last count. It belongs to the goroutine of Run.
	unwritten *eventSeries

	mu      sync.Mutex // guards all below; nothing is called while it is held
	known   map[eventKey]*eventSeries
	notes   map[happening]int // different notes that are known
	waiting []*eventSeries    // that are not on the server yet, in the order in which to try
	sent    recent            // that are, the one that repeated last at the end
	running bool
	ended   bool // Run has returned
	status  EventStatus
}

// EventStatus counts events.
type EventStatus struct {
	Waiting int    // to be created
	Kept    int    // that may still repeat; the ones that wait included
	Created uint64 // sent
	Updated uint64 // counts sent
	Dropped uint64 // because of EventOptions.Limit, about nothing, or after Run had returned
	Failed  uint64 // refused, or not sent in time; each repetition counts, as in Dropped
}

// happening is what an event tells, whatever its note.
type happening struct {
	regarding, related         types.UID
	regardingName, relatedName object.Key // of what has no UID
	typ, reason, action        string
}

// eventKey is what makes an event the same as one before.
type eventKey struct {
	happening
	note string // empty for what is beyond eventNotes
	rest bool   // it is beyond
}

// eventSeries is one event and its repetitions. It is guarded by Events.mu, but for
// event, which does not change while it waits.
type eventSeries struct {
	key   eventKey
	event *eventsv1.Event // as it is created
	since time.Time       // recorded last while it waits, or renewed: it is tried for eventPatience from then on
	count int32
	told  int32 // the last count that the server took; 0 before it took the event
	last  time.Time
	place int // in Events.sent; -1 outside of it
}

// sent reports whether the server has the event, as far as is known.
func (s *eventSeries) sent() bool { return s.place >= 0 }

// untold is how many occurrences the server does not know of.
func (s *eventSeries) untold() int { return int(s.count - s.told) }

// over reports whether what comes now begins another series. What is untold still waits.
func (s *eventSeries) over(now time.Time) bool {
	return s.untold() == 0 && now.Sub(s.last) >= eventWindow
}

// NewEvents returns a recorder of events in the name of a controller, such as
// "example.com/memcached". Nothing is sent before Run, which fails where the name
// is none that the API takes.
func NewEvents(client *rest.Client, controller string, opts EventOptions) *Events {
	if opts.Instance == "" {
		opts.Instance, _ = os.Hostname() // without a name the controller's has to do
	}
	if opts.Instance == "" {
		opts.Instance = controller
	}
	opts.Instance = cut(opts.Instance, maxWord)
	if opts.Limit <= 0 {
		opts.Limit = DefaultEventLimit
	}
	if opts.Flush <= 0 {
		opts.Flush = DefaultEventFlush
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Events{
		controller: controller, opts: opts, scheme: client.Scheme(), resource: rest.ResourceFor[*eventsv1.Event](client),
		wake: make(chan struct{}, 1), known: make(map[eventKey]*eventSeries), notes: make(map[happening]int),
	}
}

// valid says what is wrong with the controller's name.
func (r *Events) valid() error {
	if wrong := content.IsLabelKey(r.controller); len(wrong) > 0 {
		return fmt.Errorf("the API takes no events of a controller called %q: %s", r.controller, strings.Join(wrong, "; "))
	}
	return nil
}

// Record records an event about an object, which may come from a cache.
func (r *Events) Record(about object.Object, e Event) {
	if absent(about) {
		r.drop("it is about nil", e.Reason)
		return
	}
	if absent(e.Related) {
		e.Related = nil
	}
	now := time.Now()
	event := r.make(about, e, now)
	h := happening{
		regarding: event.Regarding.UID, typ: event.Type, reason: event.Reason, action: event.Action,
		regardingName: object.Key{Namespace: event.Regarding.Namespace, Name: event.Regarding.Name},
	}
	if event.Related != nil {
		h.related, h.relatedName = event.Related.UID, object.Key{Namespace: event.Related.Namespace, Name: event.Related.Name}
	}
	if why := r.record(h, event, now); why != "" {
		r.drop(why, e.Reason)
		return
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// record counts an event, or adds it to those that wait. It returns why it cannot.
func (r *Events) record(h happening, event *eventsv1.Event, now time.Time) (why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := eventKey{happening: h, note: event.Note}
	s, again := r.known[key]
	if !again && r.notes[h] >= eventNotes {
		key = eventKey{happening: h, rest: true}
		s, again = r.known[key]
	}
	switch {
	case r.ended:
		return "its recorder has ended"
	case again && !s.over(now):
		s.count++
		s.last = now
		if s.sent() {
			r.sent.touch(s)
		} else {
			s.since = now
		}
		return ""
	case len(r.waiting) >= r.opts.Limit:
		return fmt.Sprintf("%d events wait to be sent", len(r.waiting))
	}
	if again { // a series that is over, and was not forgotten yet
		r.forget(s)
	}
	s = &eventSeries{key: key, event: event, since: now, count: 1, last: now, place: -1}
	r.known[key] = s
	if !key.rest {
		r.notes[h]++
	}
	r.waiting = append(r.waiting, s)
	return ""
}

// forget lets the next event of a series begin another one. It is called under mu.
func (r *Events) forget(s *eventSeries) {
	if r.known[s.key] != s {
		return
	}
	delete(r.known, s.key)
	if s.sent() {
		r.sent.remove(s)
	}
	if s.key.rest {
		return
	}
	if r.notes[s.key.happening]--; r.notes[s.key.happening] == 0 {
		delete(r.notes, s.key.happening)
	}
}

// drop counts an event that is not recorded, and says so now and then.
func (r *Events) drop(why, reason string) {
	r.mu.Lock()
	r.status.Dropped++
	r.mu.Unlock()
	r.complaint.say(func(more int) {
		r.opts.Logger.Warn("event dropped", "controller", r.controller, "reason", reason, "because", why, "more", more)
	})
}

// absent reports whether an interface is nil, or has a nil pointer in it.
func absent(o any) bool {
	v := reflect.ValueOf(o)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// Recordf is Record of an event without related object, with a note made by
// fmt.Sprintf.
func (r *Events) Recordf(about object.Object, typ, reason, action, note string, args ...any) {
	r.Record(about, Event{Type: typ, Reason: reason, Action: action, Note: fmt.Sprintf(note, args...)})
}

// Status returns the counters.
func (r *Events) Status() EventStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.status
	s.Waiting, s.Kept = len(r.waiting), len(r.known)
	return s
}

// String names the recorder by its controller.
func (r *Events) String() string { return "events of " + r.controller }

// NeedLeaderElection says no to a manager: a process that does not lead may record
// events, and what the leader's work records at its end is still sent.
func (r *Events) NeedLeaderElection() bool { return false }

// Ready says to a manager that events wait for no cache. Events that cannot be sent
// make nobody unready: Status tells of them.
func (r *Events) Ready() error { return nil }

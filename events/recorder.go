package events

import (
	"container/heap"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/internal/throttle"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/source"
)

// ErrRunning means that Run was called while another call was running.
var ErrRunning = errors.New("it is already running")

// Defaults of [Options].
const (
	DefaultLimit = 1000
	DefaultFlush = 5 * time.Second
)

const (
	seriesWindow = 6 * time.Minute // a series ends after this time without a repetition
	maxNotes     = 10              // number of different notes per occurrence that get their own event
)

// Options configure a Recorder. The zero value works.
type Options struct {
	// Instance distinguishes processes that run the same controller. The default is the host name.
	Instance string

	// Limit is the maximum number of events waiting to be sent, and also the maximum number of sent events
	// that are kept in case they repeat. If an event is recorded while Limit others are waiting, it is
	// dropped and counted. The default is DefaultLimit.
	Limit int

	// Flush is how long Run may take to send the remaining events after its context is done. The default is
	// DefaultFlush.
	Flush time.Duration

	// Logger logs events that cannot be sent. If nil, nothing is logged.
	Logger *slog.Logger
}

// Event is a message for users about an object.
type Event struct {
	Type    string        // corev1.EventTypeNormal or EventTypeWarning; any other value means Normal
	Reason  string        // the reason in one word, such as "ScalingReplicaSet"
	Action  string        // the action that was taken or failed, in one word, such as "Scale"; the default is Reason
	Note    string        // human-readable text; truncated to 1 KiB
	Related object.Object // another object involved in the event; nil if there is none
}

// Recorder records events (events.k8s.io/v1). Events that repeat within 6 minutes (with the same object,
// type, reason, action, note and related object) are merged into one event with a count, called a series,
// which is written at most once a minute. If events differ only in the note, the first 10 notes get an
// event each, and all further notes share another one.
//
// Recording never blocks and never fails. The recorder retries an event for 10 minutes after it was last
// recorded, at intervals of up to a minute. It counts and logs dropped events. Its methods are safe for
// concurrent use. https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/
type Recorder struct {
	controller string
	opts       Options
	client     *rest.Client
	resource   *rest.Resource[*eventsv1.Event]
	wake       chan struct{} // contains a token if there are events to create

	unsent throttle.Log

	// unwritten is a series that was forgotten when Run's context was canceled; flush writes its last
	// count. Only Run's goroutine uses it.
	unwritten *series

	mu      sync.Mutex // guards the fields below; no other code is called while it is held
	known   map[identity]*series
	notes   map[occurrence]int // number of distinct notes seen
	waiting []*series          // not on the server yet; the next one to send is first
	sent    recent             // on the server
	running bool
	ended   bool // Run has returned
	status  Status
}

// Status counts events.
type Status struct {
	Waiting int    // to be created
	Kept    int    // kept in case they repeat, including those waiting
	Created uint64 // sent
	Updated uint64 // counts sent
	Dropped uint64 // because of Options.Limit, because the object was nil, or after Run had returned
	Failed  uint64 // rejected, or not sent in time; like Dropped, includes every repetition
}

// occurrence identifies events that differ only in their note.
type occurrence struct {
	regarding, related         types.UID
	regardingName, relatedName object.Key // for objects without a UID
	regardingKind, relatedKind string     // likewise
	typ, reason, action        string
}

// identity identifies repetitions of the same event.
type identity struct {
	occurrence
	note string // empty for notes beyond maxNotes
	rest bool   // the note is beyond maxNotes
}

// series is an event and its repetitions. Recorder.mu guards it, except for event, which does not change
// while the series is waiting.
type series struct {
	key   identity
	event *eventsv1.Event // the event to create
	since time.Time       // when it was last recorded while waiting, or renewed; it is retried until patience has passed since then
	count int32
	told  int32 // the last count that the server accepted; 0 until the event is created
	last  time.Time
	tried time.Time // when its count was last sent, successfully or not; only Run's goroutine uses it
	place int       // index in Recorder.sent; -1 if it is not in there
}

// sent reports whether the event has been created on the server.
func (s *series) sent() bool { return s.place >= 0 }

// untold returns the number of occurrences that have not been reported to the server.
func (s *series) untold() int { return int(s.count - s.told) }

// over reports whether the next occurrence starts a new series. A series with unreported occurrences is
// not over.
func (s *series) over(now time.Time) bool {
	return s.untold() == 0 && now.Sub(s.last) >= seriesWindow
}

// New returns an event recorder for the named controller, such as "example.com/memcached". It sends nothing
// until Run is called. Run fails if the API does not accept the name.
func New(client *rest.Client, controller string, opts Options) *Recorder {
	if opts.Instance == "" {
		opts.Instance, _ = os.Hostname() // fall back to the controller's name
	}
	if opts.Instance == "" {
		opts.Instance = controller
	}
	opts.Instance = cut(opts.Instance, maxWord)
	if opts.Limit <= 0 {
		opts.Limit = DefaultLimit
	}
	if opts.Flush <= 0 {
		opts.Flush = DefaultFlush
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Recorder{
		controller: controller, opts: opts, client: client, resource: rest.ResourceFor[*eventsv1.Event](client),
		wake: make(chan struct{}, 1), known: make(map[identity]*series), notes: make(map[occurrence]int),
	}
}

// valid returns an error if the API does not accept the controller's name.
func (r *Recorder) valid() error {
	if wrong := content.IsLabelKey(r.controller); len(wrong) > 0 {
		return fmt.Errorf("invalid event controller name %q: %s", r.controller, strings.Join(wrong, "; "))
	}
	return nil
}

// Record records an event about an object. The object may come from a cache.
func (r *Recorder) Record(about object.Object, e Event) {
	if source.IsNil(about) {
		r.drop("it is about nil", e.Reason)
		return
	}
	if source.IsNil(e.Related) {
		e.Related = nil
	}
	now := time.Now()
	event := r.make(about, e, now)
	h := occurrence{
		regarding: event.Regarding.UID, typ: event.Type, reason: event.Reason, action: event.Action,
		regardingName: object.Key{Namespace: event.Regarding.Namespace, Name: event.Regarding.Name},
		regardingKind: event.Regarding.Kind,
	}
	if event.Related != nil {
		h.related, h.relatedName = event.Related.UID, object.Key{Namespace: event.Related.Namespace, Name: event.Related.Name}
		h.relatedKind = event.Related.Kind
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

// record counts a repetition or queues a new event. If it cannot do either, it returns the reason.
func (r *Recorder) record(h occurrence, event *eventsv1.Event, now time.Time) (why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := identity{occurrence: h, note: event.Note}
	s, again := r.known[key]
	if !again && r.notes[h] >= maxNotes {
		key = identity{occurrence: h, rest: true}
		s, again = r.known[key]
	}
	switch {
	case r.ended:
		return "its recorder has stopped"
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
		return fmt.Sprintf("%d events are waiting to be sent", len(r.waiting))
	}
	if again { // the series is over but has not been forgotten yet
		r.forget(s)
	}
	s = &series{key: key, event: event, since: now, count: 1, last: now, place: -1}
	r.known[key] = s
	if !key.rest {
		r.notes[h]++
	}
	r.waiting = append(r.waiting, s)
	return ""
}

// forget makes the next occurrence of the series start a new one. The caller holds mu.
func (r *Recorder) forget(s *series) {
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
	if r.notes[s.key.occurrence]--; r.notes[s.key.occurrence] == 0 {
		delete(r.notes, s.key.occurrence)
	}
}

// drop counts a dropped event and logs it at a limited rate.
func (r *Recorder) drop(why, reason string) {
	r.mu.Lock()
	r.status.Dropped++
	r.mu.Unlock()
	r.unsent.Do(func(more int) {
		r.opts.Logger.Warn("event dropped", "controller", r.controller, "reason", reason, "because", why, "more", more)
	})
}

// Recordf calls Record with an event that has no related object. It formats the note with
// fmt.Sprintf.
func (r *Recorder) Recordf(about object.Object, typ, reason, action, note string, args ...any) {
	r.Record(about, Event{Type: typ, Reason: reason, Action: action, Note: fmt.Sprintf(note, args...)})
}

// Status returns the counters.
func (r *Recorder) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.status
	s.Waiting, s.Kept = len(r.waiting), len(r.known)
	return s
}

// String returns a name for logs.
func (r *Recorder) String() string { return "events of " + r.controller }

// NeedLeaderElection returns false: processes other than the leader may record events, and events that the
// leader's controllers record while stopping must still be sent.
func (r *Recorder) NeedLeaderElection() bool { return false }

// Ready returns nil: a recorder does not wait for a cache, and a program is ready even if it cannot send
// events, which Status counts.
func (r *Recorder) Ready() error { return nil }

// recent is a heap of the series on the server. The series that has not been repeated for the longest time
// is first.
type recent struct{ all seriesHeap }

func (r *recent) add(s *series) { heap.Push(&r.all, s) }

func (r *recent) remove(s *series) { heap.Remove(&r.all, s.place) }

// touch moves s to its new position after a repetition.
func (r *recent) touch(s *series) { heap.Fix(&r.all, s.place) }

// over returns the series to forget if there are more than limit, and otherwise nil.
func (r *recent) over(limit int) *series {
	if len(r.all) <= limit {
		return nil
	}
	return r.all[0]
}

type seriesHeap []*series

func (h seriesHeap) Len() int           { return len(h) }
func (h seriesHeap) Less(i, j int) bool { return h[i].last.Before(h[j].last) }

func (h seriesHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *seriesHeap) Push(s any) {
	s.(*series).place = len(*h)
	*h = append(*h, s.(*series))
}

func (h *seriesHeap) Pop() any {
	last := len(*h) - 1
	s := (*h)[last]
	s.place = -1
	(*h)[last] = nil
	*h = (*h)[:last]
	return s
}

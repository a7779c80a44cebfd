package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
)

// The defaults of EventOptions, and what the API allows.
const (
	DefaultEventLimit = 1000
	DefaultEventFlush = 5 * time.Second

	eventWindow  = 6 * time.Minute  // without a repetition, after which a series is over
	eventRefresh = time.Minute      // between two writes of one series
	eventTimeout = 10 * time.Second // of one write
	eventTries   = 3
	maxNote      = 1024 // bytes
	maxInstance  = 128
)

// EventOptions configure Events. The zero value works.
type EventOptions struct {
	// Instance tells the processes of one controller apart. Default the host's
	// name.
	Instance string

	// Limit is how many different events are kept at most, to be sent or to be
	// counted when they repeat. One that comes beyond is dropped and counted.
	// Default DefaultEventLimit.
	Limit int

	// Flush is how long Run goes on at most after its context is done, to send
	// what is left. Default DefaultEventFlush.
	Flush time.Duration

	// Logger hears of events that cannot be sent. Nil is silent.
	Logger *slog.Logger
}

// Event is something to tell the user about an object.
type Event struct {
	Type    string        // corev1.EventTypeNormal or EventTypeWarning; empty is Normal
	Reason  string        // why, in one word: "ScalingReplicaSet"
	Action  string        // what was done or failed, in one word: "Scale"
	Note    string        // for people; cut to 1 KiB
	Related object.Object // another object that it is about; nil if there is none
}

// Events records events of events.k8s.io/v1. What repeats within 6 minutes (same
// object, type, reason, action and related object, whatever the note) is one
// event that counts, which is written once a minute at most. To record blocks
// nobody and fails for nobody: what cannot be sent after three tries, or is too
// much, is dropped and counted. Its methods may be called from any goroutine.
// https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/
type Events struct {
	controller string
	opts       EventOptions
	scheme     *runtime.Scheme
	resource   *rest.Resource[*eventsv1.Event]
	wake       chan struct{} // a token: there is something to create

	mu     sync.Mutex // guards all below; nothing is called while it is held
	series map[eventKey]*eventSeries
	create []*eventSeries // that are not on the server yet, the oldest first
	status EventStatus
}

// EventStatus counts events.
type EventStatus struct {
	Waiting int    // to be created
	Kept    int    // that may still repeat; the ones that wait included
	Created uint64 // sent
	Updated uint64 // counts sent
	Dropped uint64 // because of EventOptions.Limit
	Failed  uint64 // not sent, after all tries
}

// eventKey is what makes an event the same as one before.
type eventKey struct {
	regarding, related  types.UID
	regardingName       object.Key // of what has no UID
	typ, reason, action string
}

// eventSeries is one event and its repetitions.
type eventSeries struct {
	key   eventKey
	event *eventsv1.Event // as it is created
	count int32
	sent  int32 // the count that the server has; 0 before it has the event
	last  time.Time
	tries int // failures since the last success
}

// NewEvents returns a recorder of events in the name of a controller, such as
// "example.com/memcached". Nothing is sent before Run.
func NewEvents(client *rest.Client, controller string, opts EventOptions) *Events {
	if opts.Instance == "" {
		opts.Instance, _ = os.Hostname() // without a name the controller's has to do
	}
	if opts.Instance == "" {
		opts.Instance = controller
	}
	opts.Instance = opts.Instance[:min(len(opts.Instance), maxInstance)]
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
		wake: make(chan struct{}, 1), series: make(map[eventKey]*eventSeries),
	}
}

// Record records an event about an object, which may come from a cache.
func (r *Events) Record(about object.Object, e Event) {
	if e.Type == "" {
		e.Type = corev1.EventTypeNormal
	}
	key := eventKey{regarding: about.GetUID(), regardingName: object.KeyOf(about), typ: e.Type, reason: e.Reason, action: e.Action}
	if e.Related != nil {
		key.related = e.Related.GetUID()
	}
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, ok := r.series[key]; ok && now.Sub(s.last) < eventWindow {
		s.count++
		s.last = now
		return
	}
	if len(r.series) >= r.opts.Limit {
		r.status.Dropped++
		return
	}
	s := &eventSeries{key: key, event: r.make(about, e, now), count: 1, last: now}
	r.series[key] = s
	r.create = append(r.create, s)
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Recordf is Record of an event without related object, with a note made by
// fmt.Sprintf.
func (r *Events) Recordf(about object.Object, typ, reason, action, note string, args ...any) {
	r.Record(about, Event{Type: typ, Reason: reason, Action: action, Note: fmt.Sprintf(note, args...)})
}

// make returns the event as it is created.
func (r *Events) make(about object.Object, e Event, now time.Time) *eventsv1.Event {
	namespace := about.GetNamespace()
	if namespace == "" {
		namespace = metav1.NamespaceDefault // as kubectl expects of cluster-scoped objects
	}
	name := about.GetName()
	event := &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s.%016x", name[:min(len(name), 230)], rand.Uint64())},
		EventTime:           metav1.NewMicroTime(now),
		ReportingController: r.controller,
		ReportingInstance:   r.opts.Instance,
		Type:                e.Type, Reason: e.Reason, Action: e.Action, Note: strings.ToValidUTF8(e.Note[:min(len(e.Note), maxNote)], ""),
		Regarding: r.reference(about),
	}
	if e.Related != nil {
		related := r.reference(e.Related)
		event.Related = &related
	}
	return event
}

// reference names an object. Without a kind, which the scheme does not know, it
// still has the rest.
func (r *Events) reference(o object.Object) corev1.ObjectReference {
	kind, _ := kindOf(o, r.scheme)
	version, name := kind.ToAPIVersionAndKind()
	return corev1.ObjectReference{
		APIVersion: version, Kind: name,
		Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(),
	}
}

// Status returns the counters.
func (r *Events) Status() EventStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.status
	s.Waiting, s.Kept = len(r.create), len(r.series)
	return s
}

// String names the recorder by its controller.
func (r *Events) String() string { return "events of " + r.controller }

// NeedLeaderElection says no to a manager: who does not lead may record events, and
// what the leader's work records at its end is still sent.
func (r *Events) NeedLeaderElection() bool { return false }

// Ready says to a manager that events wait for no cache.
func (r *Events) Ready() error { return nil }

// Run sends what is recorded until ctx is done, then what is left, for
// EventOptions.Flush at most, and returns nil.
func (r *Events) Run(ctx context.Context) error {
	refresh := time.NewTicker(eventRefresh)
	defer refresh.Stop()
	for {
		select {
		case <-r.wake:
			r.createAll(ctx)
		case <-refresh.C:
			r.createAll(ctx) // what has failed before
			r.updateAll(ctx)
			r.forget(time.Now())
		case <-ctx.Done():
			flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.opts.Flush)
			defer cancel()
			r.createAll(flush)
			r.updateAll(flush)
			return nil
		}
	}
}

// createAll tries once to create each event that the server does not have.
func (r *Events) createAll(ctx context.Context) {
	r.mu.Lock()
	create := r.create
	r.create = nil
	r.mu.Unlock()
	for n, s := range create {
		if ctx.Err() != nil {
			r.mu.Lock()
			r.create = append(create[n:], r.create...)
			r.mu.Unlock()
			return
		}
		r.write(ctx, s, func(ctx context.Context) error {
			_, err := r.resource.Create(ctx, s.event, metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				return nil // by a try whose answer was lost
			}
			return err
		}, 1, &r.status.Created)
	}
}

// updateAll tries once to write the count of each series that has grown.
func (r *Events) updateAll(ctx context.Context) {
	r.mu.Lock()
	type growth struct {
		*eventSeries
		count int32
		last  time.Time
	}
	var grown []growth
	for _, s := range r.series {
		if s.sent > 0 && s.count > s.sent {
			grown = append(grown, growth{s, s.count, s.last})
		}
	}
	r.mu.Unlock()
	for _, g := range grown {
		if ctx.Err() != nil {
			return
		}
		r.write(ctx, g.eventSeries, func(ctx context.Context) error {
			patch, err := json.Marshal(map[string]any{"series": eventsv1.EventSeries{Count: g.count, LastObservedTime: metav1.NewMicroTime(g.last)}})
			if err != nil {
				return err
			}
			_, err = r.resource.Patch(ctx, object.KeyOf(g.event), types.MergePatchType, patch, metav1.PatchOptions{})
			return err
		}, g.count, &r.status.Updated)
	}
}

// write tries once to write a series, and notes what came of it.
func (r *Events) write(ctx context.Context, s *eventSeries, call func(context.Context) error, count int32, counter *uint64) {
	limited, cancel := context.WithTimeout(ctx, eventTimeout)
	defer cancel()
	err := call(limited)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		s.sent, s.tries = count, 0
		*counter++
		return
	case ctx.Err() != nil && s.sent == 0:
		r.create = append(r.create, s) // the flush, if there is time, tries again
		return
	}
	if s.tries++; s.tries < eventTries && !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) && !apierrors.IsInvalid(err) {
		if s.sent == 0 {
			r.create = append(r.create, s)
		}
		return
	}
	r.status.Failed++
	if r.series[s.key] == s {
		delete(r.series, s.key)
	}
	r.opts.Logger.Warn("event not sent", "controller", r.controller, "reason", s.event.Reason, "about", object.FormatKey(object.Key{Namespace: s.event.Regarding.Namespace, Name: s.event.Regarding.Name}), "err", err)
}

// forget drops the series that are over.
func (r *Events) forget(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, s := range r.series {
		if s.sent == s.count && now.Sub(s.last) >= eventWindow {
			delete(r.series, key)
		}
	}
}

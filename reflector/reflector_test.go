package reflector

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

type partial = *metav1.PartialObjectMetadata

func obj(name string, rv int) partial {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(name), ResourceVersion: strconv.Itoa(rv)}}
}

func change(t watch.EventType, name string, rv int) wire.Event[object.Head] {
	return wire.Event[object.Head]{Type: t, Object: obj(name, rv)}
}

func endOfInitial(rv int) wire.Event[object.Head] {
	e := change(watch.Bookmark, "", rv)
	e.Object.(partial).Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	return e
}

// script is a source that gives each request the next of its answers and records the requests.
// After the last watch it blocks.
type script struct {
	lists   []answer
	watches []answer
	asked   []string
	asking  func() // called for each list
}

type answer struct {
	items  []object.Head
	left   *int64 // remaining items that the server reports after items, for a list with a limit
	rv     string
	events []wire.Event[object.Head]
	err    error         // of a list after its items; of a watch instead of opening
	broken error         // of a watch after its events
	after  time.Duration // how long after them
	block  bool          // a watch stays open after its events
}

func (s *script) Describe() source.Description { return source.Description{Name: "things"} }

func (s *script) List(_ context.Context, o source.Request) source.List[object.Head] {
	s.asked = append(s.asked, fmt.Sprintf("list rv=%q limit=%d", o.ResourceVersion, o.Limit))
	if s.asking != nil {
		s.asking()
	}
	a := s.lists[0]
	s.lists = s.lists[1:]
	meta := &metav1.ListMeta{ResourceVersion: a.rv}
	return source.List[object.Head]{Meta: meta, Items: func(yield func(object.Head, error) bool) {
		for _, item := range a.items {
			if !yield(item, nil) {
				return
			}
		}
		if a.err != nil {
			yield(nil, a.err)
		} else if o.Limit == 1 && len(a.items) == 1 && (a.left == nil || *a.left > 0) {
			meta.RemainingItemCount = a.left
			yield(obj("another", 1), nil)
		}
	}}
}

func (s *script) Watch(ctx context.Context, o source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	initial := ""
	if o.SendInitialEvents != nil {
		initial = " initial"
	}
	s.asked = append(s.asked, fmt.Sprintf("watch rv=%q%s", o.ResourceVersion, initial))
	a := answer{block: true}
	if len(s.watches) > 0 {
		a, s.watches = s.watches[0], s.watches[1:]
	}
	if a.err != nil {
		return nil, a.err
	}
	return func(yield func(wire.Event[object.Head], error) bool) {
		for _, e := range a.events {
			if !yield(e, nil) {
				return
			}
		}
		switch {
		case a.broken != nil:
			time.Sleep(a.after)
			yield(wire.Event[object.Head]{}, a.broken)
		case a.block:
			<-ctx.Done()
			yield(wire.Event[object.Head]{}, ctx.Err())
		}
	}, nil
}

// taken is a queue whose consumer takes every delta immediately, and keeps it.
type taken struct{ deltas []deltafifo.Delta }

func (q *taken) Add(d deltafifo.Delta) { q.deltas = append(q.deltas, d) }

func (q *taken) WaitForRoom(context.Context) error { return nil }

func (q *taken) NewHistoryQueued(string) bool { return false }

// play plays a script to its end and returns the queued deltas.
func play(t *testing.T, s *script, opts Options) (queued []string, r *Reflector) {
	t.Helper()
	return playFrom(t, s, opts, nil)
}

// playFrom is like play, but if e is not nil, the reflector starts from a saved state.
func playFrom(t *testing.T, s *script, opts Options, e *SavedState) (queued []string, r *Reflector) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		queue := new(taken)
		r = New(s, queue, opts)
		if e != nil {
			r.Resume(*e)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(4 * time.Minute)
		cancel()
		require.NoError(t, <-ended)
		for _, d := range queue.deltas {
			line := fmt.Sprintf("%s %s@%s", d.Type, d.Key.Name, d.RV)
			if d.Late {
				line = fmt.Sprintf("late %s%s", line, d.Object.GetResourceVersion())
			}
			for _, item := range d.Items {
				line += " " + item.GetName() + "@" + item.GetResourceVersion()
			}
			queued = append(queued, line)
		}
	})
	return queued, r
}

func TestStreamingListWithChangesMixedIn(t *testing.T) {
	s := &script{watches: []answer{{block: true, events: []wire.Event[object.Head]{
		change(watch.Added, "a", 1), change(watch.Added, "b", 2), change(watch.Added, "c", 3),
		change(watch.Modified, "a", 4), change(watch.Deleted, "b", 5), change(watch.Added, "d", 6), change(watch.Deleted, "x", 7),
		change(watch.Bookmark, "", 7), endOfInitial(8), change(watch.Modified, "c", 9),
	}}}}
	queued, r := play(t, s, Options{})
	require.Equal(t, []string{"replaced @8 c@3 a@4 d@6", "updated c@9"}, queued)
	require.Equal(t, []string{`watch rv="" initial`}, s.asked)
	require.EqualValues(t, 1, r.Status().Lists)
	require.EqualValues(t, 1, r.Status().Watches)
	require.Equal(t, "9", r.Status().RV)
}

func TestRefusedStreamIsListedWithoutAFailure(t *testing.T) {
	s := &script{
		watches: []answer{{err: apierrors.NewBadRequest("sendInitialEvents is forbidden")}},
		lists:   []answer{{items: []object.Head{obj("a", 3)}, rv: "7"}},
	}
	queued, r := play(t, s, Options{})
	require.Equal(t, []string{"replaced @7 a@3"}, queued)
	require.Equal(t, []string{`watch rv="" initial`, `list rv="0" limit=0`, `watch rv="7"`}, s.asked)
	require.Zero(t, r.Status().Failures)
}

// Missing permissions do not mean that streaming is unsupported, so it is tried again for the next list.
func TestForbiddenStreamIsListedThisTimeOnly(t *testing.T) {
	s := &script{
		watches: []answer{
			{err: apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "", errors.New("no"))},
			{broken: apierrors.NewResourceExpired("too old resource version")},
			{block: true, events: []wire.Event[object.Head]{change(watch.Added, "a", 8), endOfInitial(9)}},
		},
		lists: []answer{{rv: "7"}},
	}
	queued, _ := play(t, s, Options{})
	require.Equal(t, []string{"replaced @7", "replaced @9 a@8"}, queued)
	require.Equal(t, []string{`watch rv="" initial`, `list rv="0" limit=0`, `watch rv="7"`, `watch rv="" initial`}, s.asked)
}

// If a load balancer closes every connection, that does not mean that streaming is unsupported, so it is
// tried again for the next list. After a stream without an end, it is not tried again.
func TestAStreamThatWasCutShortIsListedThisTimeOnly(t *testing.T) {
	for name, c := range map[string]struct {
		first answer
		cause error
		again string
	}{
		"closed early": {answer{events: []wire.Event[object.Head]{change(watch.Added, "a", 1)}}, ErrCutShort, `watch rv="" initial`},
		"without end":  {answer{events: []wire.Event[object.Head]{change(watch.Added, "a", 1)}, block: true}, ErrNoEnd, `list rv="" limit=500`},
	} {
		for _, initial := range []Initial{Auto, WatchList} {
			t.Run(name+" "+initial.String(), func(t *testing.T) {
				s := &script{
					watches: []answer{c.first, {broken: apierrors.NewResourceExpired("too old resource version")}, {block: true, events: []wire.Event[object.Head]{endOfInitial(9)}}},
					lists:   []answer{{rv: "7"}, {rv: "9"}},
				}
				var causes []error
				_, r := play(t, s, Options{Initial: initial, OnError: func(_ context.Context, f *failure.Failure) failure.Verdict {
					causes = append(causes, f.Err)
					return failure.Retry
				}})
				require.Equal(t, []string{`watch rv="" initial`, `list rv="0" limit=0`, `watch rv="7"`, c.again}, s.asked[:4])
				require.Equal(t, "9", r.Status().RV)
				require.ErrorIs(t, causes[0], c.cause)
			})
		}
	}
}

func TestExpiredPageIsFollowedByAListInOneResponse(t *testing.T) {
	expired := apierrors.NewResourceExpired("the continue token is too old")
	s := &script{lists: []answer{{items: []object.Head{obj("a", 1)}, err: expired}, {items: []object.Head{obj("a", 1), obj("b", 2)}, rv: "9"}}}
	queued, r := play(t, s, Options{PageSize: 1})
	require.Equal(t, []string{"replaced @9 a@1 b@2"}, queued)
	require.Equal(t, []string{`list rv="" limit=1`, `list rv="" limit=0`, `watch rv="9"`}, s.asked)
	require.EqualValues(t, 1, r.Status().Failures)
	require.Zero(t, r.Status().Attempts)
}

func TestExpiredVersionIsFollowedByAConsistentList(t *testing.T) {
	s := &script{
		lists: []answer{{rv: "5"}, {items: []object.Head{obj("a", 8)}, rv: "9"}},
		watches: []answer{
			{broken: apierrors.NewResourceExpired("too old resource version")},
		},
	}
	queued, r := play(t, s, Options{Initial: List})
	require.Equal(t, []string{"replaced @5", "replaced @9 a@8"}, queued)
	require.Equal(t, []string{`list rv="0" limit=0`, `watch rv="5"`, `list rv="" limit=500`, `watch rv="9"`}, s.asked)
	require.EqualValues(t, 1, r.Status().Relists)
}

func TestUnreadableChangeIsReplacedByAList(t *testing.T) {
	odd := &wire.Error{Key: object.Key{Name: "odd"}, Err: errors.New("malformed")}
	broken := answer{broken: odd}
	progress := answer{events: []wire.Event[object.Head]{change(watch.Added, "b", 6)}, broken: odd}
	s := &script{
		lists:   []answer{{rv: "5"}, {err: odd}, {rv: "9", items: []object.Head{obj("b", 6)}}},
		watches: []answer{broken, broken, progress, broken, broken, broken, broken, broken},
	}
	queued, r := play(t, s, Options{Initial: List, Timing: Timing{Backoff: Backoff{Max: time.Second}}})
	require.Equal(t, []string{"replaced @5", "added b@6", "replaced @9 b@6"}, queued)
	require.Equal(t, []string{
		`list rv="0" limit=0`, `watch rv="5"`, `watch rv="5"`, `watch rv="5"`, // which delivers something
		`watch rv="6"`, `watch rv="6"`, `list rv="" limit=500`, // fails too, so the watch continues
		`watch rv="6"`, `watch rv="6"`, `watch rv="6"`, `list rv="" limit=500`, `watch rv="9"`,
	}, s.asked)
	require.EqualValues(t, 2, r.Status().Relists)
	require.Equal(t, object.Key{Name: "odd"}, r.Status().Failure.Key)
}

func TestAnOldVersionIsQueuedAsLate(t *testing.T) {
	s := &script{
		lists: []answer{{rv: "5"}},
		watches: []answer{{block: true, events: []wire.Event[object.Head]{
			change(watch.Added, "a", 6), change(watch.Added, "a", 6), change(watch.Bookmark, "", 6),
			change(watch.Modified, "a", 7), change(watch.Deleted, "old", 4), change(watch.Bookmark, "", 9), change(watch.Bookmark, "", 9),
		}}},
	}
	queued, r := play(t, s, Options{Initial: List})
	require.Equal(t, []string{"replaced @5", "added a@6", "late added a@6", "updated a@7", "late deleted old@4", "bookmark @9"}, queued)
	require.EqualValues(t, 2, r.Status().Events, "without those that the consumer has not settled")
	require.EqualValues(t, 3, r.Status().Bookmarks)
	require.Equal(t, "9", r.Status().RV)
	r.Settle(false)
	require.Equal(t, []any{uint64(1), uint64(2), false}, []any{r.Status().Duplicates, r.Status().Events, r.Status().Unordered})
	r.Settle(true)
	require.Equal(t, []any{uint64(1), uint64(3), true}, []any{r.Status().Duplicates, r.Status().Events, r.Status().Unordered})
}

// The number of decoded deltas waiting for a slow consumer is limited, and the wait ends with the
// consumer's next Pop or with the run.
func TestWatchWaitsForTheConsumer(t *testing.T) {
	const events = deltafifo.MaxAhead + 10
	s := &script{lists: []answer{{rv: "1"}}, watches: []answer{{block: true}}}
	for i := range events {
		s.watches[0].events = append(s.watches[0].events, change(watch.Added, strconv.Itoa(i), i+2))
	}
	synctest.Test(t, func(t *testing.T) {
		queue := deltafifo.New(deltafifo.Options{})
		r := New(s, queue, Options{Initial: List})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		synctest.Wait()
		require.Equal(t, deltafifo.MaxAhead, queue.Len())
		batch := queue.TryPop()
		synctest.Wait()
		rest := queue.TryPop()
		require.Equal(t, events+1, len(batch)+len(rest), "with that of the list")
		cancel()
		require.NoError(t, <-ended)
	})
}

func TestWatchClosedAtOnceBacksOff(t *testing.T) {
	s := &script{lists: []answer{{rv: "5"}}, watches: []answer{{}, {}, {events: []wire.Event[object.Head]{change(watch.Added, "a", 6)}}}}
	queued, r := play(t, s, Options{Initial: List})
	require.Equal(t, []string{"replaced @5", "added a@6"}, queued)
	require.EqualValues(t, 2, r.Status().Failures)
	require.ErrorIs(t, r.Status().Failure, ErrShortWatch)
	require.EqualValues(t, 4, r.Status().Watches, "one with an event is followed at once")
}

func TestListWithoutAVersionIsAFailure(t *testing.T) {
	s := &script{lists: []answer{{items: []object.Head{obj("a", 1)}}, {rv: "5"}}}
	queued, r := play(t, s, Options{Initial: List})
	require.Equal(t, []string{"replaced @5"}, queued)
	require.ErrorIs(t, r.Status().Failure, ErrNoRV)
}

// A source may yield nil. Only the reflector can tell that the source is to blame.
func TestANilObjectIsAFailureOfTheSource(t *testing.T) {
	none := wire.Event[object.Head]{Type: watch.Added}
	for name, c := range map[string]struct {
		script  script
		initial Initial
		queued  []string
	}{
		"list": {script{lists: []answer{{items: []object.Head{obj("a", 1), nil}, rv: "5"}, {rv: "6"}}}, List, []string{"replaced @6"}},
		"watch": {script{lists: []answer{{rv: "5"}}, watches: []answer{{events: []wire.Event[object.Head]{change(watch.Added, "a", 6), none}}}},
			List, []string{"replaced @5", "added a@6"}},
		"stream": {script{watches: []answer{
			{events: []wire.Event[object.Head]{none, endOfInitial(5)}},
			{events: []wire.Event[object.Head]{endOfInitial(6)}, block: true}}}, WatchList, []string{"replaced @6"}},
	} {
		t.Run(name, func(t *testing.T) {
			queued, r := play(t, &c.script, Options{Initial: c.initial})
			require.Equal(t, c.queued, queued)
			require.ErrorIs(t, r.Status().Failure, ErrNoObject)
			require.Equal(t, failure.PhaseDecode, r.Status().Failure.Phase)
		})
	}
	require.True(t, source.IsNil(object.Object(partial(nil))))
	require.True(t, source.IsNil(object.Object(nil)))
}

// nameless is a source whose Describe panics.
type nameless struct{ *script }

func (nameless) Describe() source.Description { panic("no name") }

func TestASourceWithoutANameIsReflected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(nameless{&script{lists: []answer{{rv: "5"}}}}, deltafifo.New(deltafifo.Options{}), Options{Initial: List})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		synctest.Wait()
		require.Equal(t, Watching, r.Status().State)
		require.Equal(t, "reflector.nameless", r.Status().Resource)
		cancel()
		require.NoError(t, <-ended)
	})
	require.Equal(t, "*reflector.keeper", source.Describe((*keeper)(nil)).Name)
}

func TestContradictingOptions(t *testing.T) {
	cases := map[string]Options{
		"PageSize is -1":                          {PageSize: -1},
		"a streaming list has no pages":           {PageSize: 10, Initial: WatchList},
		"WatchTimeout is 1ms: the API uses":       {Timing: Timing{WatchTimeout: time.Millisecond}},
		"StallTimeout is -1s: must be positive":   {Timing: Timing{StallTimeout: -time.Second}},
		"unknown Initial 9":                       {Initial: 9},
		"StreamTimeout is -1ns: must be positive": {Timing: Timing{StreamTimeout: -1}},
	}
	for want, opts := range cases {
		r := New(&script{}, deltafifo.New(deltafifo.Options{}), opts)
		err := r.Run(t.Context())
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "things: options: ")
		require.ErrorContains(t, r.Status().Failure, want)
		var f *failure.Failure
		require.ErrorAs(t, err, &f)
		require.True(t, f.Refused())
	}
}

func TestBackoffNeverWaitsLongerThanMaxAsks(t *testing.T) {
	for _, b := range []Backoff{{Max: 100 * time.Millisecond}, {Initial: time.Second, Max: 100 * time.Millisecond}} {
		p := pacer{Backoff: b.withDefaults()}
		require.LessOrEqual(t, p.delay(time.Now(), 0, nowhere, false), 150*time.Millisecond, "%+v", b)
	}
}

// A user who means "never" passes the longest possible duration.
func TestTheLongestWaitsStayWaits(t *testing.T) {
	const never = math.MaxInt64
	for _, b := range []Backoff{{Initial: never}, {Max: never}, {Initial: never, Max: never, Reset: never}, {Initial: never / 2, Max: never}} {
		p := pacer{Backoff: b.withDefaults()}
		for range 200 {
			require.Positive(t, p.delay(time.Now(), 0, nowhere, false), "%+v", b)
		}
	}
	opts, err := Options{Timing: Timing{WatchTimeout: never, WatchMargin: never, StallTimeout: never, StreamIdle: never, StreamTimeout: never}}.withDefaults()
	require.NoError(t, err)
	for range 200 {
		require.Greater(t, opts.watchTimeout()+opts.Timing.WatchMargin, opts.Timing.WatchTimeout)
	}
}

func TestBackoffGrowsWithJitterAndResets(t *testing.T) {
	p := pacer{Backoff: Backoff{}.withDefaults()}
	now := time.Now()
	for _, base := range []time.Duration{800 * time.Millisecond, 1600 * time.Millisecond, 3200 * time.Millisecond,
		6400 * time.Millisecond, 12800 * time.Millisecond, 25600 * time.Millisecond, 30 * time.Second, 30 * time.Second} {
		d := p.delay(now, 0, nowhere, false)
		require.GreaterOrEqual(t, d, base)
		require.LessOrEqual(t, d, base+base/2)
		now = now.Add(d)
	}
	require.GreaterOrEqual(t, p.delay(now, 70*time.Second, nowhere, false), 70*time.Second, "Retry-After is a lower bound")
	now = now.Add(5 * time.Minute)
	require.Less(t, p.delay(now, 0, nowhere, false), 1300*time.Millisecond, "a quiet time resets it")

	for n := range 20 { // a load balancer cuts the connection every minute
		now = p.last.Add(time.Minute)
		require.Less(t, p.delay(now, 0, nowhere, true), 1300*time.Millisecond, "cut %d", n)
	}
	for range 20 { // and this one at once
		p.delay(p.last.Add(time.Second), 0, nowhere, true)
	}
	require.GreaterOrEqual(t, p.delay(p.last, 0, nowhere, true), 30*time.Second)
}

func TestAnExpiredVersionIsForgivenOnceInASeries(t *testing.T) {
	p := pacer{Backoff: Backoff{}.withDefaults()}
	now := time.Now()
	fail := func(got progress) (wait time.Duration) {
		wait = p.delay(now, 0, got, false)
		now = now.Add(wait)
		return wait
	}
	for range 6 {
		fail(nowhere)
	}
	require.Less(t, fail(historyGone), 1300*time.Millisecond)
	require.GreaterOrEqual(t, fail(historyGone), 1600*time.Millisecond)
	for range 6 {
		fail(historyGone)
	}
	require.GreaterOrEqual(t, fail(historyGone), 30*time.Second)
	now = now.Add(5 * time.Minute)
	fail(nowhere)
	fail(nowhere)
	require.Less(t, fail(historyGone), 1300*time.Millisecond, "another series")
}

// A custom resource definition is installed. The kind was missing for a while, and then the server asks
// the client to wait for one second. That must not take half a minute.
func TestProgressResetsTheBackoff(t *testing.T) {
	p := pacer{Backoff: Backoff{}.withDefaults()}
	missing := progressOf(&failure.Failure{Phase: failure.PhaseResolve, Err: &meta.NoKindMatchError{}})
	initializing := progressOf(&failure.Failure{Phase: failure.PhaseList, Err: apierrors.NewTooManyRequests("storage is (re)initializing", 1)})
	now := time.Now()
	for range 7 {
		now = now.Add(p.delay(now, 0, missing, false))
	}
	require.LessOrEqual(t, p.delay(now, time.Second, initializing, false), 1500*time.Millisecond)
	require.GreaterOrEqual(t, p.delay(now, time.Second, initializing, false), 1600*time.Millisecond, "and grows again")
	require.GreaterOrEqual(t, p.delay(now, 0, missing, false), 3200*time.Millisecond, "what comes and goes makes no progress")
}

func TestTransformedKeepsWhatIdentifiesAnObject(t *testing.T) {
	cases := []struct {
		name      string
		transform func(partial) (partial, error)
		fails     string
	}{
		{"strips", func(o partial) (partial, error) {
			o.ResourceVersion, o.UID, o.ManagedFields = "", "", nil
			return o, nil
		}, ""},
		{"replaces", func(o partial) (partial, error) {
			return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: o.Name}}, nil
		}, ""},
		{"fails", func(partial) (partial, error) { return nil, errors.New("no") }, "transform a: no"},
		{"returns nil", func(partial) (partial, error) { return nil, nil }, "transform a: the transform returned nil"},
		{"panics", func(partial) (partial, error) { panic("oh") }, "transform a: transform panicked: oh"},
		{"renames", func(o partial) (partial, error) { o.Name = "b"; return o, nil }, "transform a: the transform changed the namespace or name"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := &script{
				lists:   []answer{{items: []object.Head{obj("a", 1)}, rv: "5"}},
				watches: []answer{{events: []wire.Event[object.Head]{change(watch.Bookmark, "", 5), change(watch.Modified, "a", 6)}}},
			}
			from := Transformed(s, c.transform)
			var errs []error
			for item, err := range from.List(t.Context(), source.Request{}).Items {
				if errs = append(errs, err); err == nil {
					require.Equal(t, "a@1", string(item.GetUID())+"@"+item.GetResourceVersion())
				}
			}
			events, err := from.Watch(t.Context(), source.Request{})
			require.NoError(t, err)
			for e, err := range events {
				if e.Type == watch.Bookmark {
					require.NoError(t, err)
					continue
				}
				if errs = append(errs, err); err == nil {
					require.Equal(t, "a@6", string(e.Object.GetUID())+"@"+e.Object.GetResourceVersion())
				}
			}
			require.Len(t, errs, 2)
			for _, err := range errs {
				if c.fails == "" {
					require.NoError(t, err)
					continue
				}
				require.ErrorContains(t, err, c.fails)
				var te *TransformError
				require.ErrorAs(t, err, &te)
				require.Equal(t, object.Key{Name: "a"}, te.Key)
			}
		})
	}
}

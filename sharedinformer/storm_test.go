package sharedinformer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/object"
)

// witness is a handler that checks its events against the laws.
type witness struct {
	t       *testing.T
	what    string
	mu      sync.Mutex
	known   map[object.Key]partial
	told    []string
	calls   uint64
	syncs   int
	inCall  bool
	closed  bool
	delay   func() time.Duration
	unruly  bool
	meddles func()
	r       *Registration
}

func (h *witness) fail(format string, args ...any) {
	h.t.Errorf("%s: %s\n%v", h.what, fmt.Sprintf(format, args...), h.told[max(0, len(h.told)-30):])
}

func (h *witness) Handle(_ context.Context, e Event[partial]) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.inCall {
		h.fail("two calls at a time")
	}
	h.inCall = true
	defer func() { h.inCall = false }()
	h.calls++
	key := object.KeyOf(e.Object)
	h.told = append(h.told, fmt.Sprintf("%s %s %s@%s", e.Type, key, e.Object.UID, e.Object.ResourceVersion))
	if h.closed {
		h.fail("called after CloseAndWait")
	}
	have, ok := h.known[key]
	switch e.Type {
	case Add:
		if ok {
			h.fail("added twice")
		}
		h.known[key] = e.Object
	case Update:
		switch {
		case !ok || have.UID != e.Object.UID || e.Old == nil || e.Old.UID != have.UID:
			h.fail("update of what is not there: %v", have)
		case e.Old != have:
			h.fail("from %s, known %s", e.Old.ResourceVersion, have.ResourceVersion)
		case number(e.Object) < number(have):
			h.fail("back in time")
		}
		h.known[key] = e.Object
	case Delete:
		if !ok || have.UID != e.Object.UID {
			h.fail("deletion of what is not there: %v", have)
		}
		delete(h.known, key)
	case Resync:
		if !ok || have != e.Object {
			h.fail("resync of %s, known %v", e.Object.ResourceVersion, have)
		}
	}
	h.mu.Unlock()
	defer h.mu.Lock()
	time.Sleep(h.delay())
	switch h.calls % 11 {
	case 3:
		if h.unruly {
			runtime.Goexit()
		}
	case 5:
		if h.unruly {
			panic("oh")
		}
	case 7:
		if h.meddles != nil {
			h.meddles()
		}
	}
	return nil
}

// number is the resource version of o.
func number(o partial) int {
	n, _ := strconv.Atoi(o.ResourceVersion)
	return n
}

// storms is the number of seeds, about 10 ms each, ten times that under the race detector.
const storms = 100

// Changes, sets of namespaces, handlers that join, leave, panic and exit, broken watches and restarts
// may come in any order. Each handler receives one timeline, and ends with the state of the server.
func TestL17_AnyStorm(t *testing.T) {
	for seed := range uint64(storms) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { storm(t, seed) }) })
		if t.Failed() {
			return
		}
	}
}

// tempest is one seed being played.
type tempest struct {
	*testing.T
	seed  uint64
	rng   *rand.Rand
	world *world
	i     *Informer[partial]
	all   []*witness
	set   []string       // the last wanted set
	mu    sync.Mutex     // held by interfering goroutines
	calm  bool           // interference has ended; guarded by mu
	group sync.WaitGroup // calls that may block
	stop  context.CancelFunc
	ended chan error
}

var sets = [][]string{nil, {}, {"a"}, {"b"}, {"a", "b"}, {"a", "b", "c"}, {"c"}}

func (s *tempest) anySet() []string { return sets[s.rng.IntN(len(sets))] }

func (s *tempest) one(in int) bool { return s.rng.IntN(in) == 0 }

// join adds a handler.
func (s *tempest) join() {
	h := &witness{t: s.T, known: map[object.Key]partial{}, unruly: s.one(3)}
	opts := HandlerOptions{Lag: Lag(s.rng.IntN(2)), OnSync: func() { h.syncs++ }}
	if s.one(2) {
		opts.Resync = time.Duration(1+s.rng.IntN(5000)) * time.Millisecond
	}
	if set := s.anySet(); s.one(4) {
		h.meddles = func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if !s.calm {
				_ = s.i.SetNamespaces(set)
			}
		}
	}
	delay := time.Duration(s.rng.IntN(3)*s.rng.IntN(300)) * time.Millisecond
	h.delay = func() time.Duration { return delay }
	h.what = fmt.Sprintf("seed %d, handler %d, lag %d, delay %s", s.seed, len(s.all), opts.Lag, delay)
	h.r = s.i.AddHandlerWith(h, opts)
	s.all = append(s.all, h)
}

// leave closes a handler.
func (s *tempest) leave(h *witness) {
	require.NoError(s, h.r.CloseAndWait(s.Context()))
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	require.Zero(s, h.r.Status().Pending)
}

// toggle starts the informer, or stops it, or both.
func (s *tempest) toggle() {
	if s.stop != nil {
		s.stop()
		require.NoError(s, <-s.ended)
		if s.stop = nil; s.one(2) {
			return
		}
	}
	var ctx context.Context
	ctx, s.stop = context.WithCancel(s.Context())
	wait, err := s.i.Start(ctx)
	require.NoError(s, err)
	go func() { s.ended <- wait() }()
}

// act performs one random action.
func (s *tempest) act() {
	switch n := s.rng.IntN(20); {
	case n < 9:
		s.world.change(s.rng)
	case n < 12:
		set := s.anySet()
		s.set = set
		s.group.Go(func() { require.NoError(s, s.i.SetNamespaces(set)) })
		if s.one(2) {
			s.group.Wait()
		}
	case n < 13:
		s.join()
	case n < 14:
		h := s.all[s.rng.IntN(len(s.all))]
		s.group.Go(func() { s.leave(h) })
	case n < 15:
		s.toggle()
	case n < 16:
		s.world.breakWatches()
	case n < 17:
		time.Sleep(time.Duration(s.rng.IntN(10_000)) * time.Millisecond)
	default:
		time.Sleep(time.Duration(s.rng.IntN(100)) * time.Millisecond)
	}
	for _, h := range s.all {
		require.GreaterOrEqual(s, h.r.Status().Pending, 0)
	}
}

// storm plays one seed.
func storm(t *testing.T, seed uint64) {
	s := &tempest{T: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), world: newWorld(), ended: make(chan error, 1)}
	s.world.slow = s.one(2)
	s.i = informerOf(part{s.world}, Options{Namespaces: s.anySet(), Compact: s.one(3)})
	byName := AddIndex(s.i, "name", func(o partial) []string { return []string{o.Name} })
	s.join()
	s.toggle()
	for range 150 {
		s.act()
	}
	s.group.Wait()
	s.mu.Lock()
	s.calm = true
	s.mu.Unlock()
	require.NoError(t, s.i.SetNamespaces(s.set))
	if s.stop == nil {
		s.toggle()
	}
	require.NoError(t, s.i.WaitForSync(t.Context()))
	time.Sleep(2 * time.Minute)
	synctest.Wait()
	finish(t, seed, s.i, s.world, s.set, s.all)
	n := 0
	for _, name := range byName.Values() {
		n += byName.Len(name)
	}
	require.Equal(t, s.i.Cache().Len(), n)
	for _, h := range s.all {
		s.leave(h)
	}
	s.stop()
	require.NoError(t, <-s.ended)
}

// finish compares the final state with the server.
func finish(t *testing.T, seed uint64, i *Informer[partial], w *world, set []string, all []*witness) {
	truth := map[object.Key]partial{}
	for key, o := range w.objects {
		if set == nil || slices.Contains(set, key.Namespace) {
			truth[key] = o
		}
	}
	cached := map[object.Key]partial{}
	for o := range i.Cache().All() {
		cached[object.KeyOf(o)] = o
	}
	require.Equal(t, truth, cached, "seed %d", seed)
	s := i.Status()
	require.True(t, s.Synced)
	require.Zero(t, s.QueueDepth)
	for _, h := range all {
		if h.closed {
			continue
		}
		h.mu.Lock()
		s := h.r.Status()
		require.Equal(t, truth, h.known, "%s", h.what)
		require.True(t, s.Synced)
		require.Equal(t, 1, h.syncs, "%s", h.what)
		if s.Pending == 0 {
			require.EqualValues(t, h.calls, s.Delivered, "%s", h.what)
			require.Zero(t, s.Behind)
		}
		h.mu.Unlock()
	}
}

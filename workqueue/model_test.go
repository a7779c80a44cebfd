package workqueue_test

import (
	"cmp"
	"flag"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/workqueue"
)

var modelSeed = flag.Uint64("workqueue.seed", 0, "run the model test with this seed alone")

// model is a queue written for being obvious: keys in a map, and every question
// answered by a search through all of them.
type model struct {
	keys  map[int]*modelKey
	every int
	turn  int
	clock int // orders events
}

type modelKey struct {
	owed     string // "", "later", "now"
	running  bool
	due      time.Time
	priority int
	handed   int
	age      int // when it began to wait
	joined   int // when it joined its priority
}

func (m *model) at(key int) *modelKey {
	if m.keys[key] == nil {
		m.keys[key] = &modelKey{}
	}
	return m.keys[key]
}

func (m *model) tick() int {
	m.clock++
	return m.clock
}

// someDelay is some milliseconds. The nanoseconds keep due times apart, since
// keys that are due at the same time have no order.
func (m *model) someDelay(rng *rand.Rand) time.Duration {
	return time.Duration(rng.IntN(5000))*time.Millisecond + time.Duration(m.tick())
}

func (m *model) add(key, priority int, keep bool, due time.Time) {
	k := m.at(key)
	if keep && k.running {
		priority = max(priority, k.handed)
	}
	later := due.After(time.Now())
	switch {
	case k.owed == "now":
		if priority > k.priority {
			k.priority, k.joined = priority, m.tick()
		}
	case later && k.owed == "later":
		k.priority = max(k.priority, priority)
		if due.Before(k.due) {
			k.due = due
		}
	case later:
		k.owed, k.priority, k.due = "later", priority, due
	default:
		if k.owed == "later" {
			priority = max(priority, k.priority)
		}
		m.owe(k, priority)
	}
}

func (m *model) owe(k *modelKey, priority int) {
	k.owed, k.priority = "now", priority
	k.age = m.tick()
	k.joined = k.age
}

// pass lets the delayed keys wait whose time has come.
func (m *model) pass() {
	var dues []*modelKey
	for _, k := range m.keys {
		if k.owed == "later" && !k.due.After(time.Now()) {
			dues = append(dues, k)
		}
	}
	slices.SortFunc(dues, func(a, b *modelKey) int { return a.due.Compare(b.due) })
	for _, k := range dues {
		m.owe(k, k.priority)
	}
}

func (m *model) waiting() []int {
	var keys []int
	for key, k := range m.keys {
		if k.owed == "now" && !k.running {
			keys = append(keys, key)
		}
	}
	return keys
}

func (m *model) get() int {
	m.turn++
	byAge := func(a, b int) int { return m.keys[a].age - m.keys[b].age }
	byRank := func(a, b int) int {
		return cmp.Or(m.keys[b].priority-m.keys[a].priority, m.keys[a].joined-m.keys[b].joined)
	}
	order := byRank
	if m.turn == m.every {
		m.turn, order = 0, byAge
	}
	key := slices.MinFunc(m.waiting(), order)
	k := m.keys[key]
	k.owed, k.running, k.handed = "", true, k.priority
	return key
}

func (m *model) done(key int) {
	k := m.keys[key]
	k.running = false
	if k.owed == "now" {
		k.age = m.tick()
		k.joined = k.age
	}
}

func (m *model) count(match func(*modelKey) bool) (n int) {
	for _, k := range m.keys {
		if match(k) {
			n++
		}
	}
	return n
}

// TestModel replays random actions on a queue and on the model.
func TestModel(t *testing.T) {
	if *modelSeed != 0 {
		runModel(t, *modelSeed)
		return
	}
	first := uint64(time.Now().UnixNano())
	for seed := range uint64(150) {
		runModel(t, first+seed)
		if t.Failed() {
			return
		}
	}
}

func runModel(t *testing.T, seed uint64) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("seed %d: run it alone with -workqueue.seed=%d", seed, seed)
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(seed, 0))
		m := &model{keys: map[int]*modelKey{}, every: 1 + rng.IntN(6)}
		q := workqueue.New(workqueue.Options[int]{FairEvery: m.every, Timestamps: rng.IntN(2) == 0})
		defer q.ShutDown()
		for range 400 {
			modelStep(t, rng, q, m)
			m.compare(t, q)
		}
	})
}

func modelStep(t *testing.T, rng *rand.Rand, q *workqueue.Queue[int], m *model) {
	t.Helper()
	key := rng.IntN(12)
	switch action := rng.IntN(12); action {
	case 0, 1, 2:
		var after time.Duration
		if rng.IntN(3) > 0 {
			after = m.someDelay(rng)
		}
		priority, keep := rng.IntN(25)-12, rng.IntN(2) == 0
		m.add(key, priority, keep, time.Now().Add(after))
		q.AddWith(workqueue.AddOptions{Priority: priority, KeepPriority: keep, After: after}, key)
	case 3, 4:
		m.add(key, 0, false, time.Now())
		q.Add(key)
	case 5:
		time.Sleep(time.Duration(rng.IntN(1000)) * time.Millisecond)
		synctest.Wait()
		m.pass()
	case 6:
		want := m.at(key).owed == "later"
		if want {
			m.at(key).owed = ""
		}
		require.Equal(t, want, q.Cancel(key), "cancel %d", key)
	case 7:
		after := m.someDelay(rng)
		k := m.at(key)
		want := k.owed == "later"
		if want {
			k.due = time.Now().Add(after)
		}
		require.Equal(t, want, q.Reschedule(key, after), "reschedule %d", key)
	case 8, 9:
		if m.at(key).running {
			m.done(key)
			q.Done(key)
		}
	default:
		if len(m.waiting()) > 0 {
			want := m.get()
			require.Equal(t, want, get(t, q), "get")
		}
	}
}

func (m *model) compare(t *testing.T, q *workqueue.Queue[int]) {
	t.Helper()
	s := q.Status()
	require.Equal(t, len(m.waiting()), s.Waiting, "waiting")
	require.Equal(t, m.count(func(k *modelKey) bool { return k.running }), s.Running, "running")
	require.Equal(t, m.count(func(k *modelKey) bool { return k.owed == "later" }), s.Delayed, "delayed")
	require.Equal(t, m.count(func(k *modelKey) bool { return k.running && k.owed == "now" }), s.Again, "again")
	require.Equal(t, s.Adds, s.Gets+uint64(s.Waiting+s.Again), "each add is handed out or waits")
	byPriority := 0
	for i, p := range s.ByPriority {
		byPriority += p.Waiting
		if i > 0 {
			require.Less(t, p.Priority, s.ByPriority[i-1].Priority)
		}
	}
	require.Equal(t, s.Waiting, byPriority)

	var want, got []int
	for key, k := range m.keys {
		if k.owed == "later" {
			want = append(want, key)
		}
	}
	slices.SortFunc(want, func(a, b int) int { return m.keys[a].due.Compare(m.keys[b].due) })
	for _, held := range q.Contents(3).Delayed {
		require.WithinDuration(t, m.keys[held.Key].due, held.Due, 0)
		got = append(got, held.Key)
	}
	require.Equal(t, want[:min(3, len(want))], got, "earliest delayed")
}

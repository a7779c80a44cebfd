package ownwrites

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// clock is a cache that counts how often it is queried.
type clock struct {
	mu      sync.Mutex
	rv      int
	changed chan struct{}
	asked   int
	deleted map[int]bool
	broken  error
}

func (c *clock) reached(_, rv string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	return object.ReachedRV(strconv.Itoa(c.rv), rv)
}

func (c *clock) wait(ctx context.Context, done func() bool) error {
	for {
		c.mu.Lock()
		changed, broken := c.changed, c.broken
		c.mu.Unlock()
		if done() {
			return nil
		}
		if broken != nil {
			return broken
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (c *clock) heard(string) uint64 { return 0 }

func (c *clock) reconnect(string, uint64, time.Duration, error) {}

func (c *clock) name() string { return "clocks" }

func (c *clock) change(f func()) (asked int) {
	c.mu.Lock()
	f()
	before := c.asked
	close(c.changed)
	c.changed = make(chan struct{})
	c.mu.Unlock()
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked - before
}

// lot returns a Barrier with many parked requests that wrote to one cache, and the number of requests
// added again.
func lot(t *testing.T, writes func(n int, c *clock) Write, parked int) (*Barrier, *clock, *atomic.Int64) {
	ctx, cancel := context.WithCancel(t.Context())
	var again atomic.Int64
	b := New(ctx, Options{
		Controller: "test", Patience: time.Hour, Counts: new(Counts), Logger: slog.New(slog.DiscardHandler),
		Again: func(Request) { again.Add(1) },
	})
	t.Cleanup(func() {
		cancel()
		b.Close()
	})
	at := &clock{rv: 1, changed: make(chan struct{}), deleted: map[int]bool{}}
	for n := range parked {
		req := Request{Key: object.Key{Name: fmt.Sprint(n)}}
		b.Wrote(req, collected(writes(n, at)))
		require.True(t, b.Park(req))
		require.True(t, b.Park(req), "it stays parked")
	}
	synctest.Wait()
	require.Equal(t, parked, b.Parked())
	return b, at, &again
}

func collected(writes ...Write) *Writes {
	all := new(Writes)
	for _, w := range writes {
		all.Add(w)
	}
	return all
}

// However many requests wait, the cost of a change depends only on the number that it releases.
func TestChangeWakesTheRequestsWaitingForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const parked = 5000
		b, at, again := lot(t, func(n int, c *clock) Write { // in a shuffled order
			return Write{cache: c, rv: strconv.Itoa(2 + (n*7919)%parked)}
		}, parked)
		for n := range parked {
			asked := at.change(func() { at.rv++ })
			require.Equal(t, parked-n-1, b.Parked())
			require.Equal(t, n+1, int(again.Load()))
			require.LessOrEqual(t, asked, 4)
		}
		require.Empty(t, b.notes)
	})
}

func TestManyDeletionsAreAwaitedOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const parked = 1000
		b, at, again := lot(t, func(n int, c *clock) Write {
			return Write{cache: c, gone: func() bool {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.asked++
				return c.deleted[n]
			}}
		}, parked)
		require.LessOrEqual(t, at.change(func() {}), 2*someDeletions)
		at.change(func() { // all but one at once
			for n := range parked - 1 {
				at.deleted[n] = true
			}
		})
		time.Sleep(time.Second)
		require.Equal(t, 1, b.Parked())
		at.change(func() { at.deleted[parked-1] = true })
		require.Zero(t, b.Parked())
		require.EqualValues(t, parked, again.Load())
	})
}

// A cache that fails or is too slow does not hold requests back forever.
func TestParkedRequestsTimeOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const parked = 100
		writes := func(n int, c *clock) Write { return Write{cache: c, rv: "1000"} }
		b, _, again := lot(t, writes, parked)
		time.Sleep(time.Hour)
		synctest.Wait()
		require.EqualValues(t, parked, again.Load())
		require.Zero(t, b.Parked())
		require.EqualValues(t, parked, b.opts.Counts.Stale.Load())

		b, at, again := lot(t, writes, parked)
		at.change(func() { at.broken = sharedinformer.ErrStopped })
		require.EqualValues(t, parked, again.Load())
		require.EqualValues(t, parked, b.opts.Counts.Stale.Load())
	})
}

// A write may arrive just before a request's patience expires, too late for the goroutine that waits for the cache.
func TestWriteThatArrivesAtTheLastMomentIsNotMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, at, again := lot(t, func(n int, c *clock) Write { return Write{cache: c, rv: "1000"} }, 1)
		at.mu.Lock()
		at.rv = 1000
		at.mu.Unlock()
		time.Sleep(time.Hour)
		synctest.Wait()
		require.EqualValues(t, 1, again.Load())
		require.Zero(t, b.opts.Counts.Stale.Load())
	})
}

// If writes overlap, the answer to a write from before a deletion may arrive after the answer to the
// deletion. The deletion must still be seen.
func TestO01_ALateAnswerCoversNoDeletion(t *testing.T) {
	at := &clock{}
	for uid, want := range map[types.UID]int{"1": 2, "": 1} {
		all := new(Writes)
		all.Add(Write{cache: at, uid: uid, gone: func() bool { return false }})
		all.Add(Write{cache: at, rv: "5", alive: true})
		require.Len(t, all.list(), want, "the deletion of UID %q", uid)
	}
}

// deafCache never sees a write.
type deafCache struct{ cache }

func (deafCache) reached(string, string) bool                    { return false }
func (deafCache) heard(string) uint64                            { return 0 }
func (deafCache) wait(context.Context, func() bool) error        { return nil }
func (deafCache) reconnect(string, uint64, time.Duration, error) {}

// If the patience is over before a write is noted, as a very short one may be, the earlier notes are
// checked once, not for as long as the cache lags.
func TestZeroPatience(t *testing.T) {
	b := New(t.Context(), Options{Patience: -time.Second})
	for n := range 3 {
		req := Request{Key: object.Key{Name: fmt.Sprint(n)}}
		b.Wrote(req, collected(Write{cache: deafCache{}, rv: "1"}))
		require.Contains(t, b.notes, req)
	}
	require.Len(t, b.order, 3)
}

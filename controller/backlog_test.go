package controller

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/object"
)

// clock is a cache that counts how often it is asked.
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

// lot is a session in which many requests are parked that wrote to one cache.
func lot(t *testing.T, writes func(n int, c *clock) write, parked int) (*session, *clock) {
	c, err := New("test", Func(func(context.Context, Request) (Result, error) { return Result{}, nil }), Options{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	s := newSession(ctx, c)
	t.Cleanup(func() {
		cancel()
		s.close()
		s.tasks.Wait()
	})
	at := &clock{rv: 1, changed: make(chan struct{}), deleted: map[int]bool{}}
	for n := range parked {
		req := Request{Key: object.Key{Name: fmt.Sprint(n)}}
		s.parking.note(req, []write{writes(n, at)}, time.Now().Add(time.Hour))
		require.True(t, s.park(req))
		require.True(t, s.park(req), "it stays parked")
	}
	synctest.Wait()
	require.Equal(t, parked, s.parking.parked())
	return s, at
}

// However many wait, a change costs what it lets go.
func TestAChangeWakesTheRequestsThatItIsAbout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const parked = 5000
		s, at := lot(t, func(n int, c *clock) write { // in an order of their own
			return write{cache: c, rv: strconv.Itoa(2 + (n*7919)%parked)}
		}, parked)
		for n := range parked {
			asked := at.change(func() { at.rv++ })
			require.Equal(t, parked-n-1, s.parking.parked())
			require.Equal(t, n+1, s.queue.Len())
			require.LessOrEqual(t, asked, 4)
		}
		require.Empty(t, s.parking.notes)
	})
}

func TestManyDeletionsAreAwaitedInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const parked = 1000
		s, at := lot(t, func(n int, c *clock) write {
			return write{cache: c, gone: func() bool {
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
		require.Equal(t, 1, s.parking.parked())
		at.change(func() { at.deleted[parked-1] = true })
		require.Zero(t, s.parking.parked())
		require.Equal(t, parked, s.queue.Len())
	})
}

// A cache that fails, or is too slow, holds nobody for longer than is worth it.
func TestParkedRequestsAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const parked = 100
		writes := func(n int, c *clock) write { return write{cache: c, rv: "1000"} }
		s, _ := lot(t, writes, parked)
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, parked, s.queue.Len())
		require.Zero(t, s.parking.parked())
		require.EqualValues(t, parked, s.controller.count.stale.Load())

		s, at := lot(t, writes, parked)
		at.change(func() { at.broken = context.Canceled })
		require.Equal(t, parked, s.queue.Len())
		require.EqualValues(t, parked, s.controller.count.stale.Load())
	})
}

// Of writes at the same time, the answer to one from before a deletion may come after that to the
// deletion, which has to be seen all the same.
func TestO01_ALateAnswerCoversNoDeletion(t *testing.T) {
	at := &clock{}
	for uid, want := range map[types.UID]int{"1": 2, "": 1} {
		a := &attempt{}
		a.wrote(write{cache: at, uid: uid, gone: func() bool { return false }})
		a.wrote(write{cache: at, rv: "5", alive: true})
		require.Len(t, a.written(), want, "the deletion of UID %q", uid)
	}
}

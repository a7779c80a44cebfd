package conformance_test

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// Some lies of work queues.
type (
	doneAtOnce   struct{ queue }
	dropsRunning struct {
		queue
		mu      sync.Mutex
		running map[string]bool
	}
	mergesNothing struct {
		queue
		mu      sync.Mutex
		adds    int
		running map[string][]string
	}
	takesNothing    struct{ queue }
	drainsNothing   struct{ queue }
	drainsAlways    struct{ queue }
	endsLater       struct{ queue }
	leavesGoroutine struct{ queue }
	delaysNothing   struct{ queue }
	delaysEach      struct{ queue }
	delaysOnce      struct {
		queue
		delayed map[string]bool
	}
	backsOffNever  struct{ queue }
	forgetsNothing struct{ queue }
	cancelsNothing struct{ queue }
)

func (q doneAtOnce) Get() (string, bool) {
	key, ok := q.queue.Get()
	if ok {
		q.queue.Done(key)
	}
	return key, ok
}

func (doneAtOnce) Done(string) {}

func (q *dropsRunning) Add(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.running[key] {
		q.queue.Add(key)
	}
}

func (q *dropsRunning) Get() (string, bool) {
	key, ok := q.queue.Get()
	q.mu.Lock()
	defer q.mu.Unlock()
	if ok {
		q.running[key] = true
	}
	return key, ok
}

func (q *dropsRunning) Done(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.running, key)
	q.queue.Done(key)
}

func (q *mergesNothing) Add(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.adds++
	q.queue.Add(fmt.Sprint(key, "#", q.adds))
}

func (q *mergesNothing) Get() (string, bool) {
	unique, ok := q.queue.Get()
	key, _, _ := strings.Cut(unique, "#")
	q.mu.Lock()
	defer q.mu.Unlock()
	if ok {
		q.running[key] = append(q.running[key], unique)
	}
	return key, ok
}

func (q *mergesNothing) Done(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue.Done(q.running[key][0])
	q.running[key] = q.running[key][1:]
}

func (takesNothing) Add(string) {}

func (takesNothing) AddRateLimited(string) {}

func (q drainsNothing) Drain() { q.ShutDown() }

func (q drainsAlways) ShutDown() { q.Drain() }

func (q endsLater) ShutDown() { time.AfterFunc(10*time.Minute, q.queue.ShutDown) }

func (q leavesGoroutine) ShutDown() {
	q.queue.ShutDown()
	go time.Sleep(time.Hour)
}

func (q delaysNothing) AddAfter(key string, _ time.Duration) { q.Add(key) }

func (q delaysEach) AddAfter(key string, after time.Duration) {
	time.AfterFunc(after, func() { q.Add(key) })
}

func (q delaysOnce) AddAfter(key string, after time.Duration) {
	if !q.delayed[key] {
		q.delayed[key] = true
		q.queue.AddAfter(key, after)
	}
}

func (q backsOffNever) AddRateLimited(key string) { q.AddAfter(key, time.Second) }

func (forgetsNothing) Forget(string) {}

func (q cancelsNothing) ForgetAndCancel(key string) { q.Forget(key) }

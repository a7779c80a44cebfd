package simulation

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/millrace-dev/millrace/workqueue"
)

// backlog is a standalone work queue with its workers and the expected state of its keys.
type backlog struct {
	play  *play
	rand  *rand.Rand // used only by the goroutine that runs the schedule
	fair  int
	queue *workqueue.Queue[int]
	hands sync.WaitGroup // the workers

	mu      sync.Mutex // guards the fields below
	owed    [backlogKeys]debt
	workers []*worker
	gets    int
	running int
	last    time.Time // time of the last Done
	closing bool
}

// backlogKeys is the number of different keys in a backlog.
const backlogKeys = 9

// debt is a key's expected state.
type debt struct {
	asked    bool
	from, by time.Time // the key is due between from and by if a worker is free
	since    int       // value of gets when the key started waiting; -1 before that
	added    time.Time // the last add
	perhaps  bool      // another hand-out is allowed, because an add coincided with this one
	failures int       // as counted by the rate limiter
	running  bool
}

// worker processes keys until it is dismissed.
type worker struct {
	free  time.Time // when the worker started waiting for a key; zero while it has one
	leave context.CancelFunc
}

func newBacklog(p *play) *backlog {
	b := &backlog{play: p, rand: rand.New(rand.NewPCG(p.Seed, 29)), fair: 1 + int(p.Seed%8)}
	b.open()
	return b
}

// open creates a new queue.
func (b *backlog) open() {
	b.queue = workqueue.New(workqueue.Options[int]{Name: "backlog", FairEvery: b.fair})
	b.mu.Lock()
	b.owed, b.closing, b.gets = [backlogKeys]debt{}, false, 0
	b.mu.Unlock()
	b.hire(1 + b.rand.IntN(3))
}

// hire makes sure that there are at least n workers.
func (b *backlog) hire(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.workers) < n {
		ctx, cancel := context.WithCancel(b.play.ctx)
		w := &worker{free: time.Now(), leave: cancel}
		b.workers = append(b.workers, w)
		random := rand.New(rand.NewPCG(b.play.Seed, b.rand.Uint64()))
		b.hands.Go(func() { b.work(ctx, w, random) })
	}
}

// dismiss removes one worker.
func (b *backlog) dismiss(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n %= len(b.workers)
	b.workers[n].leave()
	b.workers = append(b.workers[:n], b.workers[n+1:]...)
}

func (b *backlog) work(ctx context.Context, w *worker, random *rand.Rand) {
	defer w.leave()
	for {
		key, err := b.queue.Get(ctx)
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, workqueue.ErrShutDown) {
				b.play.breaks("L28: the queue's Get failed: %v", err)
			}
			return
		}
		b.handed(w, key)
		time.Sleep(time.Duration(1 + random.IntN(20_000_000)))
		switch random.IntN(8) {
		case 0:
			b.add(key, workqueue.AddOptions{RateLimited: true, KeepPriority: true})
		case 1:
			b.add(key, workqueue.AddOptions{})
		case 2, 3:
			b.forget(key)
		}
		b.done(w, key)
		b.queue.Done(key)
	}
}

// add adds a key and updates its expected state.
func (b *backlog) add(key int, opts workqueue.AddOptions) {
	b.mu.Lock()
	defer b.mu.Unlock()
	d, now := &b.owed[key], time.Now()
	from, by := now.Add(opts.After), now.Add(opts.After)
	if opts.RateLimited && !b.closing {
		wait := min(workqueue.DefaultMax, workqueue.DefaultBase<<min(d.failures, 20))
		d.failures++
		from, by = now.Add(max(opts.After, wait-wait/5-time.Microsecond)), now.Add(max(opts.After, wait))
	}
	if !b.closing {
		if !d.asked || from.Before(d.from) {
			d.from = from
		}
		if !d.asked || by.Before(d.by) {
			d.by = by
		}
		if !d.asked {
			d.asked, d.since = true, -1
		}
		d.added = now
		b.wait(now)
	}
	b.queue.AddWith(opts, key)
}

// wait records which keys are waiting at time now: those that are due but not running.
func (b *backlog) wait(now time.Time) {
	for key := range b.owed {
		if d := &b.owed[key]; d.asked && !d.running && d.since < 0 && !d.by.After(now) {
			d.since = b.gets
		}
	}
}

func (b *backlog) forget(key int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.owed[key].failures = 0
	b.queue.Forget(key)
}

// handed records that a key was handed to a worker.
func (b *backlog) handed(w *worker, key int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	d, now := &b.owed[key], time.Now()
	b.play.say("backlog", "key %d is handed out", key)
	w.free = time.Time{}
	b.wait(now)
	b.gets++
	b.running++
	switch {
	case d.running:
		b.play.breaks("L26: key %d was handed to two workers", key)
	case !d.asked && !d.perhaps && !b.closing:
		b.play.breaks("L27: key %d was handed out without an add", key)
	case d.asked && !d.perhaps && now.Before(d.from): // otherwise the hand-out may be due to the earlier add
		b.play.breaks("L29: key %d was handed out %s too early", key, d.from.Sub(now))
	}
	d.running, d.asked, d.perhaps = true, false, d.asked && d.added.Equal(now)
	for key := range b.owed {
		if d := &b.owed[key]; d.asked && !d.running && d.since >= 0 && b.gets-d.since > b.fair*(backlogKeys+1) {
			b.play.breaks("L30: key %d is waiting although %d others were handed out, with %d keys and FairEvery %d", key, b.gets-d.since, backlogKeys, b.fair)
		}
	}
}

func (b *backlog) done(w *worker, key int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	d, now := &b.owed[key], time.Now()
	w.free, b.last = now, now
	d.running, d.since = false, -1
	b.running--
	b.wait(now)
}

// check finds keys that are waiting even though a worker is free. It ignores the current instant, which may
// not be over.
func (b *backlog) check() {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	free := false
	for _, w := range b.workers {
		free = free || !w.free.IsZero() && w.free.Before(now)
	}
	for key, d := range b.owed {
		if free && d.asked && !d.running && d.by.Before(now) {
			b.play.breaks("L29: key %d was due %s ago although a worker is free", key, now.Sub(d.by))
		}
	}
}

// close shuts down the queue and waits for its workers to exit. If drain is set, the queue first finishes all
// work.
func (b *backlog) close(drain bool) {
	b.hire(1)
	b.mu.Lock()
	b.closing = true
	began := time.Now()
	var due []int // keys that Drain must hand out
	for key, d := range b.owed {
		if d.asked && !d.running && d.by.Before(began) {
			due = append(due, key)
		}
	}
	b.mu.Unlock()
	b.play.say("backlog", "closes, drain %v", drain)
	if !drain {
		b.queue.ShutDown()
		if took := time.Since(began); took > 0 {
			b.play.breaks("L28: ShutDown took %s", took)
		}
	} else {
		ctx, cancel := context.WithTimeout(b.play.ctx, time.Hour)
		err := b.queue.Drain(ctx)
		cancel()
		b.drained(err, began, due)
	}
	b.hands.Wait()
	b.mu.Lock()
	b.workers = nil
	b.mu.Unlock()
}

// drained checks the state after Drain returns.
func (b *backlog) drained(err error, began time.Time, due []int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.last.After(began) {
		began = b.last
	}
	switch {
	case err != nil:
		b.play.breaks("L28: Drain: %v", err)
	case b.running > 0:
		b.play.breaks("L28: Drain returned while %d keys were being worked on", b.running)
	case time.Since(began) > 0:
		b.play.breaks("L28: Drain returned %s after the last key was done", time.Since(began))
	}
	for _, key := range due {
		if b.owed[key].asked {
			b.play.breaks("L28: Drain returned before waiting key %d was handed out", key)
		}
	}
}

// ask adds some keys: now or later, with different priorities, or after failures.
func (b *backlog) ask(s Step) {
	for range 1 + s.N%6 {
		opts := workqueue.AddOptions{Priority: b.rand.IntN(4)}
		switch b.rand.IntN(3) {
		case 0:
			opts.After = time.Duration(b.rand.Int64N(int64(s.For) + 1))
		case 1:
			opts.RateLimited = true
		}
		b.add(b.rand.IntN(backlogKeys), opts)
	}
}

// hurry keeps adding urgent keys, which might starve others.
func (b *backlog) hurry(s Step) {
	b.add(s.Who%backlogKeys, workqueue.AddOptions{Priority: -1})
	for range 100 + s.N%100 {
		for key := range 4 {
			if key != s.Who%backlogKeys {
				b.add(key, workqueue.AddOptions{Priority: 10})
			}
		}
		time.Sleep(5*time.Millisecond + 3*time.Nanosecond)
	}
}

// giveUp dismisses a worker right after adding a key, which may have woken that worker.
func (b *backlog) giveUp(s Step) {
	b.hire(2)
	time.Sleep(time.Duration(1 + s.N))
	b.add(s.Who%backlogKeys, workqueue.AddOptions{})
	b.dismiss(s.N)
}

// drain shuts down the queue, with or without draining it, and creates a new one.
func (b *backlog) drain(s Step) {
	b.close(s.N%2 == 0)
	b.open()
}

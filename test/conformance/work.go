package conformance

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// stingy is client-go's promise that its work queue gives a key to only one worker at a time, merges adds,
// and hands out re-added keys again.
var stingy = linesOf("util/workqueue/doc.go", 20, 25)

// work lists the cases about handing out keys.
var work = []Case{
	{
		Law: "L26", Name: "a key has one worker at a time", Source: stingy,
		play: func(p *play) {
			q := p.queue()
			var held [5]atomic.Int32
			var all atomic.Int32
			for n := range 8 {
				p.work(q, func(key string) {
					in := &held[atoi(key)]
					p.want(in.Add(1) == 1, "two workers have key %s", key)
					time.Sleep(time.Duration(1+n) * time.Millisecond)
					in.Add(-1)
					all.Add(1)
				})
			}
			for n := range 1000 {
				q.Add(fmt.Sprint(n * n % 7 % len(held)))
				settle(300 * time.Microsecond)
			}
			settle(time.Minute)
			p.want(all.Load() >= 100, "%d hand-outs of 1000 adds in 300 ms, with 8 workers who are quick", all.Load())
		},
	},
	{
		Law: "L26", Name: "a key added while it is processed is processed again", Source: stingy,
		play: func(p *play) {
			q := p.queue()
			w := p.worker(q, time.Minute)
			q.Add("a")
			settle(10 * time.Second)
			q.Add("a")
			q.Add("a")
			settle(10 * time.Second)
			w.took("a at 0s")
			settle(time.Hour)
			w.took("a at 0s", "a at 1m0s")
		},
	},
	{
		Law: "L27", Name: "every add is followed by a hand-out", Source: linesOf("util/workqueue/queue.go", 224, 226),
		play: func(p *play) {
			q := p.queue()
			const keys = 20
			var added, seen [keys]atomic.Int64
			for n := range 4 {
				p.work(q, func(key string) {
					k := atoi(key)
					seen[k].Store(added[k].Load())
					time.Sleep(time.Duration(1+n) * time.Millisecond)
				})
			}
			var adders sync.WaitGroup
			for a := range 3 {
				adders.Go(func() {
					p.guard("Add", func() {
						for n := range 1000 {
							k := (n*n + a*n) % keys
							added[k].Add(1)
							q.Add(fmt.Sprint(k))
							time.Sleep(time.Duration(n*7%5) * 500 * time.Microsecond)
						}
					})
				})
			}
			adders.Wait()
			settle(time.Minute)
			for k := range keys { // each key is last added while it is being processed
				for range 2 {
					added[k].Add(1)
					q.Add(fmt.Sprint(k))
					settle(time.Microsecond)
				}
			}
			settle(time.Minute)
			for k := range keys {
				p.want(seen[k].Load() == added[k].Load(), "after add %d of key %d, the last hand-out was after add %d", added[k].Load(), k, seen[k].Load())
			}
		},
	},
	{
		Law: "L27", Name: "adds of a waiting key merge", Source: stingy,
		play: func(p *play) {
			q := p.queue()
			for range 3 {
				q.Add("a")
				q.Add("b")
			}
			settle(time.Second)
			w := p.worker(q, 0)
			settle(time.Hour)
			w.took("a at 1s", "b at 1s")
		},
	},
	{
		Law: "L30", Name: "no key starves behind more urgent ones",
		play: func(p *play) {
			q := p.queue()
			ranking := offered[Ranking](p, q)
			const limit = 5000 // only a bounded time is promised, so this limit is generous
			var urgent, patient atomic.Int32
			next := func() { ranking.AddWithPriority(fmt.Sprint("urgent-", urgent.Add(1)), 10) }
			for range 10 {
				next()
			}
			q.Add("patient")
			p.work(q, func(key string) {
				if key == "patient" {
					patient.Store(urgent.Load())
				} else if patient.Load() == 0 && urgent.Load() < limit {
					next()
				}
				time.Sleep(time.Millisecond)
			})
			settle(time.Minute)
			p.want(patient.Load() > 0 && patient.Load() < limit, "a key waited until %d more urgent ones had ended, and no more came", limit)
		},
	},
}

// queue creates a case's work queue. The end of the case shuts it down if nothing else has.
func (p *play) queue() Queue {
	q := offered[Queueing](p, p.stack).NewQueue(time.Second)
	p.shutDown = sync.OnceFunc(func() { p.guard("ShutDown", q.ShutDown) })
	return q
}

// work starts a worker that calls do with each key until the queue shuts down.
func (p *play) work(q Queue, do func(key string)) (ended <-chan struct{}) {
	end := make(chan struct{})
	p.runs.Go(func() {
		defer close(end)
		p.guard("Get or Done", func() {
			for {
				key, ok := q.Get()
				if !ok {
					return
				}
				do(key)
				q.Done(key)
			}
		})
	})
	return end
}

// worker is a worker that records the keys it receives, and when.
type worker struct {
	play  *play
	ended <-chan struct{}

	mu  sync.Mutex
	log []string
}

// worker starts a worker on q that spends the given time on each key.
func (p *play) worker(q Queue, each time.Duration) *worker {
	w := &worker{play: p}
	w.ended = p.work(q, func(key string) {
		w.mu.Lock()
		w.log = append(w.log, fmt.Sprintf("%s at %s", key, time.Since(p.began).Round(100*time.Millisecond)))
		w.mu.Unlock()
		time.Sleep(each)
	})
	return w
}

// took breaks the case unless the worker received exactly these keys, sorted by time and then by key.
func (w *worker) took(want ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Equal(w.log, want) {
		w.play.breaks("handed out %q, want %q", w.log, want)
	}
}

package conformance

import (
	"runtime"
	"slices"
	"strings"
	"time"
)

// shutdown lists the cases about shutting down a queue.
var shutdown = []Case{
	{
		Law: "L28", Name: "a drain returns when queued and running work is done", Source: linesOf("util/workqueue/queue.go", 321, 326),
		play: func(p *play) {
			q := p.queue()
			draining := offered[Draining](p, q)
			w := p.worker(q, time.Minute)
			for _, key := range []string{"a", "b", "c"} {
				q.Add(key)
				settle(time.Second)
			}
			drained := make(chan time.Duration, 1)
			p.runs.Go(func() {
				p.guard("Drain", draining.Drain)
				drained <- time.Since(p.began)
			})
			settle(time.Second)
			q.Add("d") // too late
			settle(time.Hour)
			w.took("a at 0s", "b at 1m0s", "c at 2m0s")
			select {
			case at := <-drained:
				p.want(at >= 3*time.Minute && at < 4*time.Minute, "the drain ended after %s, the work after 3m", at)
			default:
				p.breaks("the drain has not ended after an hour, the work after 3m")
				p.shutDown()
			}
		},
	},
	{
		Law: "L28", Name: "a shutdown does not wait for work",
		play: func(p *play) {
			q := p.queue()
			p.worker(q, time.Hour)
			q.Add("a")
			q.Add("b")
			settle(time.Second)
			began := time.Now()
			p.shutDown()
			p.want(time.Since(began) <= time.Second, "ShutDown took %s", time.Since(began))
		},
	},
	{
		Law: "L28", Name: "a shutdown ends every wait for a key", Source: linesOf("util/workqueue/queue.go", 304, 306),
		play: func(p *play) {
			q := p.queue()
			var waiting []*worker
			for range 3 {
				waiting = append(waiting, p.worker(q, 0))
			}
			settle(time.Minute)
			p.shutDown()
			settle(time.Minute)
			for n, w := range waiting {
				select {
				case <-w.ended:
				default:
					p.breaks("worker %d still waits for a key a minute after the shutdown", n)
				}
			}
		},
	},
	{
		Law: "L28", Name: "a queue leaves nothing behind",
		play: func(p *play) {
			settle(time.Second) // give the server's goroutines time to start
			before := goroutines()
			q := p.queue()
			w := p.worker(q, time.Second)
			q.Add("a")
			if delaying, ok := q.(Delaying); ok {
				delaying.AddAfter("b", 2*time.Second)
				delaying.AddAfter("c", 24*time.Hour)
			}
			settle(time.Minute)
			p.shutDown()
			settle(time.Minute)
			select {
			case <-w.ended:
			default:
				p.breaks("the worker still waits for a key")
			}
			p.noneButThese(before)
		},
	},
}

// noneButThese breaks the case if any goroutine's creator is not in before.
func (p *play) noneButThese(before []string) {
	for _, g := range goroutines() {
		p.want(slices.Contains(before, g), "a goroutine is left that was %s", g)
	}
}

// goroutines returns the creator of each goroutine in the bubble.
func goroutines() (makers []string) {
	text := make([]byte, 1<<20)
	all := strings.Split(string(text[:runtime.Stack(text, true)]), "\n\n")
	_, bubble, _ := strings.Cut(strings.SplitN(all[0], "\n", 2)[0], "synctest bubble ")
	for _, g := range all {
		head, _, _ := strings.Cut(g, "\n")
		if !strings.Contains(head, "synctest bubble "+bubble) {
			continue
		}
		if _, maker, ok := strings.Cut(g, "created by "); ok {
			maker, _, _ = strings.Cut(maker, " in goroutine")
			makers = append(makers, "created by "+maker)
		}
	}
	return makers
}

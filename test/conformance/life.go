package conformance

import (
	"context"
	"fmt"
	"time"
)

// life lists the cases about starting and stopping.
var life = []Case{
	{
		Law: "L23", Name: "a stop ends the wait for a server that is down", Source: clientGo(195, 196),
		play: func(p *play) {
			var stops []func()
			for range 5 {
				i := p.informer(Options{})
				stops = append(stops, p.run(i))
			}
			p.srv.Down()
			settle(10 * time.Minute)
			for _, stop := range stops {
				p.stopsWithin(stop, time.Second)
			}
		},
	},
	{
		Law: "L23", Name: "a stop ends a watch", Source: clientGo(195, 196),
		play: func(p *play) {
			stop := p.run(p.informer(Options{}))
			settle(time.Minute)
			p.stopsWithin(stop, time.Second)
		},
	},
	{
		Law: "L23", Name: "no call after the end", Source: clientGo(195, 195),
		play: func(p *play) {
			i := p.informer(Options{})
			w := p.witnessWith(i, Handler{}, func(heard) { time.Sleep(10 * time.Second) })
			stop := p.run(i)
			settle(time.Minute)
			for n := range 10 {
				p.put(fmt.Sprint("pod-", n), "1")
			}
			settle(time.Second)
			stop()
			p.want(w.in.Load() == 0, "Run has returned while a handler is in a call")
			n := len(w.all())
			settle(time.Hour)
			p.want(len(w.all()) == n, "%d calls after Run had returned", len(w.all())-n)
		},
	},
	{
		Law: "L23", Name: "a context that is done runs nothing",
		play: func(p *play) {
			ctx, cancel := context.WithCancel(p.ctx)
			cancel()
			i := p.informer(Options{})
			ended := make(chan struct{})
			p.runs.Go(func() { defer close(ended); p.guard("Run", func() { _ = i.Run(ctx) }) })
			select {
			case <-ended:
			case <-time.After(time.Minute):
				p.breaks("Run has not returned after a minute")
			}
			p.want(!i.HasSynced(), "the informer has synced")
		},
	},
	{
		Law: "L23", Name: "an informer leaves nothing behind",
		play: func(p *play) {
			settle(time.Second) // give the server's goroutines time to start
			before := goroutines()
			p.put("a", "1")
			i := p.informer(Options{})
			w := p.witnessWith(i, Handler{Every: time.Hour}, nil)
			stop := p.run(i)
			settle(time.Minute)
			p.put("a", "2")
			settle(time.Minute)
			w.tells("add a=1 (marked)", "update a=2")
			stop()
			p.srv.Down() // close idle connections
			settle(time.Second)
			p.noneButThese(before)
		},
	},
	{
		Law: "L24", Name: "a stopped informer runs again and reports the difference",
		play: func(p *play) {
			p.put("a", "1")
			p.put("b", "1")
			i := p.informer(Options{})
			offered[Restartable](p, i)
			w := p.witness(i)
			stop := p.run(i)
			settle(time.Minute)
			stop()
			w.forget()
			p.put("a", "2")
			p.delete("b")
			p.put("c", "1")
			settle(time.Minute)
			w.tells()
			p.run(i)
			settle(time.Minute)
			w.tells("update a=2", "delete b=1", "add c=1")
			p.equal(i)
		},
	},
}

// stopsWithin breaks the case unless stop returns in time. Cases try this on several informers, because an
// informer's back-off may happen to end at that moment.
func (p *play) stopsWithin(stop func(), d time.Duration) {
	began := time.Now()
	stop()
	p.want(time.Since(began) <= d, "Run took %s to return", time.Since(began))
}

package conformance

import (
	"fmt"
	"sync/atomic"
	"time"
)

// lag lists the cases about slow handlers.
var lag = []Case{
	{
		Law: "L08", Name: "a blocked handler does not delay others", Source: clientGo(148, 149),
		play: func(p *play) {
			i := p.informer(Options{})
			p.witnessWith(i, Handler{}, func(heard) { <-p.ctx.Done() })
			w := p.witness(i)
			p.run(i)
			settle(time.Minute)
			for n := range 2000 {
				p.put(fmt.Sprint("pod-", n%100), fmt.Sprint(n))
			}
			settle(time.Minute)
			w.lawful()
			w.agrees()
			p.equal(i)
		},
	},
	{
		Law: "L09", Name: "the backlog of a slow handler can be bounded",
		play: func(p *play) {
			i := p.informer(Options{})
			offered[Coalescing](p, i)
			var slow atomic.Bool
			w := p.witnessWith(i, Handler{Coalesce: true}, func(heard) {
				if slow.Load() {
					time.Sleep(time.Minute)
				}
			})
			p.run(i)
			settle(time.Minute)
			slow.Store(true)
			for n := range 1000 {
				p.put(fmt.Sprint("pod-", n%5), fmt.Sprint(n))
			}
			settle(time.Second)
			if l, ok := w.r.(Lagging); ok {
				p.want(l.Pending() <= 6, "%d calls are pending for 5 objects", l.Pending())
			}
			settle(time.Hour)
			w.lawful()
			w.agrees()
			p.want(len(w.all()) < 20, "%d calls about 5 objects", len(w.all()))
		},
	},
	{
		Law: "L09", Name: "the lag of a handler is visible",
		play: func(p *play) {
			i := p.informer(Options{})
			w := p.witnessWith(i, Handler{}, func(heard) { <-p.ctx.Done() })
			l := offered[Lagging](p, w.r)
			p.run(i)
			settle(time.Minute)
			for n := range 10 {
				p.put("a", fmt.Sprint(n))
			}
			settle(time.Minute)
			p.want(l.Pending() == 10, "%d calls are pending, want 10", l.Pending())
		},
	},
}

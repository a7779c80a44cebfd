package conformance

import (
	"fmt"
	"time"
)

// leaving lists the cases about handlers that leave.
var leaving = []Case{
	{
		Law: "L07", Name: "a removed handler receives no later change", Source: clientGo(182, 185),
		play: func(p *play) {
			i, w := p.synced(Options{})
			other := p.witness(i)
			p.must(w.r.Remove())
			p.put("a", "1")
			settle(time.Minute)
			w.tells()
			other.tells("add a=1")
		},
	},
	{
		Law: "L07", Name: "removing a handler waits for its call in progress", Source: clientGo(1139, 1140),
		play: func(p *play) {
			i := p.informer(Options{})
			w := p.witnessWith(i, Handler{}, func(heard) { time.Sleep(10 * time.Second) })
			closer := offered[Closer](p, w.r)
			p.run(i)
			settle(time.Minute)
			for n := range 5 {
				p.put(fmt.Sprint("pod-", n), "1")
			}
			settle(time.Second)
			p.want(w.in.Load() == 1, "the handler is not in a call")
			p.must(closer.RemoveAndWait(p.ctx))
			p.want(w.in.Load() == 0, "the handler is in a call after it was removed")
			n := len(w.all())
			settle(time.Hour)
			p.want(len(w.all()) == n, "%d calls after the handler was removed", len(w.all())-n)
		},
	},
	{
		Law: "L07", Name: "removing a handler twice, and after the end, is safe", Source: clientGo(180, 180),
		play: func(p *play) {
			i := p.informer(Options{})
			w := p.witness(i)
			late := p.witness(i)
			stop := p.run(i)
			settle(time.Minute)
			p.must(w.r.Remove())
			p.must(w.r.Remove())
			stop()
			p.must(late.r.Remove())
		},
	},
	{
		Law: "L07", Name: "a handler may remove itself during a call",
		play: func(p *play) {
			p.put("a", "1")
			p.put("b", "1")
			i := p.informer(Options{})
			var r Registration
			left := make(chan struct{})
			w := p.witnessWith(i, Handler{}, func(heard) {
				err := r.Remove()
				if p.want(err == nil, "leaving fails: %v", err); !isClosed(left) {
					close(left)
				}
			})
			r = w.r
			p.run(i)
			select {
			case <-left:
			case <-time.After(time.Hour):
				p.breaks("removing the handler did not return")
			}
			settle(time.Minute)
			n := len(w.all())
			p.put("c", "1")
			settle(time.Minute)
			p.want(len(w.all()) == n, "%d calls after the handler was removed", len(w.all())-n)
		},
	},
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

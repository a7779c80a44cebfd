package conformance

import (
	"fmt"
	"strings"
	"time"
)

// order lists the cases about call order.
var order = []Case{
	{
		Law: "L01", Name: "changes of one object come in order", Source: clientGo(124, 125),
		play: func(p *play) {
			_, w := p.synced(Options{})
			for n := range 200 {
				p.put("a", fmt.Sprint(n))
			}
			settle(time.Minute)
			w.lawful()
			w.agrees()
		},
	},
	{
		Law: "L01", Name: "one call at a time", Source: clientGo(123, 124),
		play: func(p *play) {
			i := p.informer(Options{})
			w := p.witnessWith(i, Handler{Every: time.Second}, func(heard) { time.Sleep(300 * time.Millisecond) })
			p.run(i)
			for n := range 20 {
				p.put(fmt.Sprint("pod-", n%4), fmt.Sprint(n))
				settle(100 * time.Millisecond)
			}
			settle(time.Minute)
			w.lawful()
			w.agrees()
		},
	},
	{
		Law: "L02", Name: "different objects come in the order of the server",
		play: func(p *play) {
			_, w := p.synced(Options{})
			for n := range 100 {
				p.put(fmt.Sprint("pod-", n*7%20), fmt.Sprint(n))
			}
			settle(time.Minute)
			last := 0
			for _, h := range w.all() {
				p.want(number(h.pod) > last, "%s at %d after %d", h, number(h.pod), last)
				last = number(h.pod)
			}
			w.agrees()
		},
	},
	{
		Law: "L02", Name: "a relist reports deletions first",
		play: func(p *play) {
			for n := range 10 {
				p.put(fmt.Sprint("old-", n), "x")
			}
			_, w := p.synced(Options{})
			w.forget()
			p.away(func() {
				for n := range 10 {
					p.delete(fmt.Sprint("old-", n))
					p.put(fmt.Sprint("new-", n), "x")
				}
			})
			calls := ""
			for _, h := range w.all() {
				calls += h.call[:1]
			}
			p.want(calls == strings.Repeat("d", 10)+strings.Repeat("a", 10), "heard %q (a: add, d: delete)", calls)
		},
	},
}

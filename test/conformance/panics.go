package conformance

import (
	"time"
)

// panics lists the cases about handlers that panic.
var panics = []Case{
	{
		Law: "L10", Name: "a handler continues after a panic",
		play: func(p *play) {
			p.put("a", "1")
			i := p.informer(Options{})
			w := p.witnessWith(i, Handler{}, func(h heard) {
				if h.pod.Name == "a" {
					panic(errRefused)
				}
			})
			p.run(i)
			settle(time.Minute)
			p.put("b", "1")
			settle(time.Minute)
			w.tells("add a=1 (marked)", "add b=1")
			p.equal(i)
			p.want(w.r.HasSynced(), "the handler never syncs")
		},
	},
	{
		Law: "L10", Name: "a panic is reported with the object",
		play: func(p *play) {
			p.put("a", "1")
			var reports errorList
			i := p.informer(Options{OnError: reports.add})
			p.witnessWith(i, Handler{}, func(h heard) { panic(errRefused) })
			p.run(i)
			settle(time.Minute)
			p.want(reports.mention("shop/a"), "no report names the object: %q", reports.all())
			p.want(reports.mention(".go:"), "no report names the handler's place: %q", reports.all())
		},
	},
}

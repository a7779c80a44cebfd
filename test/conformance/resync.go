package conformance

import (
	"fmt"
	"slices"
	"time"
)

// resyncs lists the cases about resyncs.
var resyncs = []Case{
	{
		Law: "L11", Name: "a resync goes only to the handler that requested it", Source: clientGo(157, 162),
		play: func(p *play) {
			p.put("a", "1")
			i := p.informer(Options{})
			every := p.witnessWith(i, Handler{Every: time.Minute}, nil)
			never := p.witness(i)
			p.run(i)
			settle(10*time.Minute + time.Second)
			resyncs := len(every.story()) - 1
			p.want(resyncs >= 8 && resyncs <= 11, "%d resyncs in ten minutes, want one per minute", resyncs)
			never.tells("add a=1 (marked)")
		},
	},
	{
		Law: "L11", Name: "a resync overtakes no change",
		play: func(p *play) {
			p.put("a", "0")
			i := p.informer(Options{})
			w := p.witnessWith(i, Handler{Every: time.Second}, func(heard) { time.Sleep(250 * time.Millisecond) })
			p.run(i)
			for n := range 200 {
				p.put("a", fmt.Sprint(n))
				settle(100 * time.Millisecond)
			}
			settle(time.Hour)
			w.lawful()
			w.agrees()
		},
	},
	{
		Law: "L11", Name: "resyncs do not accumulate for a slow handler",
		play: func(p *play) {
			p.put("a", "0")
			i := p.informer(Options{})
			w := p.witnessWith(i, Handler{Every: time.Second}, func(heard) { time.Sleep(time.Minute) })
			p.run(i)
			settle(time.Hour)
			p.put("a", "1")
			settle(5 * time.Minute)
			p.want(slices.ContainsFunc(w.all(), func(h heard) bool { return h.call == "update" }),
				"a change is not delivered within 5 minutes: resyncs are ahead of it")
		},
	},
}

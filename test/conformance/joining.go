package conformance

import (
	"fmt"
	"time"
)

// joining lists the cases about handlers that join late.
var joining = []Case{
	{
		Law: "L06", Name: "a late handler receives everything once", Source: clientGo(113, 119),
		play: func(p *play) {
			for n := range 50 {
				p.put(fmt.Sprint("pod-", n), "0")
			}
			i, _ := p.synced(Options{})
			var late []*witness
			for n := range 200 {
				p.put(fmt.Sprint("pod-", n%60), fmt.Sprint(n))
				if n%20 == 10 {
					late = append(late, p.witness(i))
				}
			}
			settle(time.Minute)
			for _, w := range late {
				w.lawful()
				w.agrees()
				p.want(w.r.HasSynced(), "the late handler has not synced")
			}
		},
	},
	{
		Law: "L06", Name: "existing objects are marked as initial", Source: clientGo(113, 116),
		play: func(p *play) {
			p.put("a", "1")
			i, early := p.synced(Options{})
			late := p.witness(i)
			settle(time.Minute)
			p.put("b", "1")
			settle(time.Minute)
			early.tells("add a=1 (marked)", "add b=1")
			late.tells("add a=1 (marked)", "add b=1")
		},
	},
	{
		Law: "L06", Name: "joining does not wait for other handlers",
		play: func(p *play) {
			p.put("a", "1")
			i := p.informer(Options{})
			p.witnessWith(i, Handler{}, func(heard) { <-p.ctx.Done() })
			p.run(i)
			settle(time.Minute)
			joined := make(chan *witness, 1)
			go func() {
				defer close(joined)
				p.guard("AddHandler", func() { joined <- p.witness(i) })
			}()
			select {
			case late, ok := <-joined:
				if !ok {
					return // guard has already reported the reason
				}
				settle(time.Minute)
				late.tells("add a=1 (marked)")
			case <-time.After(time.Hour):
				p.breaks("a handler could not join while another was in a call")
			}
		},
	},
}

package conformance

import (
	"fmt"
	"time"
)

// pairing lists the cases about matching calls and object identity.
var pairing = []Case{
	{
		Law: "L03", Name: "a missed deletion is reported", Source: clientGo(93, 98),
		play: func(p *play) {
			p.put("a", "1")
			p.put("b", "1")
			_, w := p.synced(Options{})
			w.forget()
			p.away(func() { p.delete("a") })
			w.changes("delete a=1 (marked)")
		},
	},
	{
		Law: "L03", Name: "every deletion follows an addition",
		play: func(p *play) {
			_, w := p.synced(Options{})
			for n := range 30 {
				p.put("a", fmt.Sprint(n))
				if n%3 == 2 {
					p.delete("a")
				}
				if n%7 == 6 {
					p.away(func() { p.put("b", fmt.Sprint(n)) })
				}
			}
			settle(time.Minute)
			w.lawful()
			w.agrees()
		},
	},
	{
		Law: "L03", Name: "a deletion has the last state", Source: clientGo(142, 144),
		play: func(p *play) {
			p.put("a", "1")
			_, w := p.synced(Options{})
			p.put("a", "2")
			p.delete("a")
			settle(time.Minute)
			w.tells("add a=1 (marked)", "update a=2", "delete a=2")
		},
	},
	{
		Law: "L04", Name: "a recreated object is another one",
		play: func(p *play) {
			p.put("a", "1")
			_, w := p.synced(Options{})
			w.forget()
			p.away(func() { p.delete("a"); p.put("a", "2") })
			w.tells("delete a=1 (marked)", "add a=2")
			w.agrees()
		},
	},
	{
		Law: "L04", Name: "an object recreated during a watch is another one",
		play: func(p *play) {
			p.put("a", "1")
			_, w := p.synced(Options{})
			w.forget()
			p.delete("a")
			p.put("a", "2")
			settle(time.Minute)
			w.tells("delete a=1", "add a=2")
		},
	},
}

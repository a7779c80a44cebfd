package conformance

import "time"

// readOnly lists the cases about objects that must not be modified.
var readOnly = []Case{
	{
		Law: "L16", Name: "the informer gives no write access to the cache",
		play: func(p *play) {
			p.put("a", "1")
			i, _ := p.synced(Options{})
			if w, ok := i.(Writable); ok {
				p.guard("Write", func() {
					w.Write(pod("a", "forged"))
					w.Write(pod("b", "forged"))
				})
			}
			settle(time.Second)
			p.equal(i)
		},
	},
	{
		Law: "L16", Name: "a change of a cached object is reported with type, key and field",
		play: func(p *play) {
			offered[Detecting](p, p.stack)
			p.put("a", "1")
			p.put("b", "1")
			var reports errorList
			_, w := p.synced(Options{DetectMutations: true, OnError: reports.add})
			settle(time.Minute)
			p.want(len(reports.all()) == 0, "reported before anything was changed: %q", reports.all())
			for _, h := range w.all() {
				if h.pod.Name == "a" {
					h.pod.Labels["state"] = "changed"
				}
			}
			p.put("c", "1") // makes the change happen before the check, to satisfy the race detector
			settle(time.Hour)
			for _, want := range []string{"Pod", "shop/a", "abels"} {
				p.want(reports.mention(want), "no report mentions %q: %q", want, reports.all())
			}
			p.want(!reports.mention("shop/b"), "an unchanged object is reported: %q", reports.all())
		},
	},
}

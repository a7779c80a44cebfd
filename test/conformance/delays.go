package conformance

import "time"

// delays lists the cases about delayed adds.
var delays = []Case{
	{
		Law: "L29", Name: "a delay is honoured", Source: linesOf("util/workqueue/delaying_queue.go", 39, 40),
		play: func(p *play) {
			q := p.queue()
			delaying := offered[Delaying](p, q)
			w := p.worker(q, 0)
			delaying.AddAfter("b", 2*time.Minute)
			delaying.AddAfter("a", time.Minute)
			settle(3 * time.Hour)
			w.took("a at 1m0s", "b at 2m0s")
		},
	},
	{
		Law: "L29", Name: "the earlier of two delayed adds wins",
		play: func(p *play) {
			q := p.queue()
			delaying := offered[Delaying](p, q)
			w := p.worker(q, 0)
			delaying.AddAfter("a", time.Hour)
			settle(time.Second)
			delaying.AddAfter("a", time.Minute)
			delaying.AddAfter("b", 2*time.Minute)
			settle(time.Second)
			delaying.AddAfter("b", time.Hour)
			settle(3 * time.Hour)
			w.took("a at 1m1s", "b at 2m1s")
		},
	},
	{
		Law: "L29", Name: "an immediate add supersedes a delayed one",
		play: func(p *play) {
			q := p.queue()
			delaying := offered[Delaying](p, q)
			w := p.worker(q, 0)
			delaying.AddAfter("a", time.Hour)
			settle(time.Second)
			q.Add("a")
			settle(3 * time.Hour)
			w.took("a at 1s")
		},
	},
	{
		Law: "L29", Name: "forgetting a key drops its back-off", Source: linesOf("util/workqueue/rate_limiting_queue.go", 33, 36),
		play: func(p *play) {
			q := p.queue()
			limiting := offered[Limiting](p, q)
			handed := make(chan struct{}, 1)
			p.work(q, func(string) { handed <- struct{}{} })
			fail := func() time.Duration {
				began := time.Now()
				limiting.AddRateLimited("a")
				select {
				case <-handed:
				case <-time.After(time.Hour):
					p.breaks("the key was not handed out within an hour")
				}
				return time.Since(began)
			}
			first := fail()
			for range 3 {
				fail()
			}
			fifth := fail()
			p.want(fifth > 4*first, "the wait after the fifth failure is %s, after the first %s", fifth, first)
			limiting.Forget("a")
			again := fail()
			p.want(again <= 2*first, "the wait is %s after the key was forgotten, %s at first", again, first)
		},
	},
	{
		Law: "L29", Name: "forgetting a key drops its delayed add, if requested",
		play: func(p *play) {
			q := p.queue()
			delaying, cancelling := offered[Delaying](p, q), offered[Cancelling](p, q)
			w := p.worker(q, 0)
			delaying.AddAfter("a", time.Hour)
			delaying.AddAfter("b", time.Hour)
			settle(time.Second)
			cancelling.ForgetAndCancel("a")
			settle(3 * time.Hour)
			w.took("b at 1h0m0s")
		},
	},
}

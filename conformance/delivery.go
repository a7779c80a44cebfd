package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// clientGo is where client-go documents its SharedInformer: some lines of that file.
func clientGo(first, last int) string {
	return fmt.Sprintf("https://github.com/kubernetes/client-go/blob/v0.37.2/tools/cache/shared_informer.go#L%d-L%d", first, last)
}

// errRefused is what hooks of cases fail with.
var errRefused = errors.New("refused on purpose")

// delivery are the cases of what handlers hear.
var delivery = []Case{
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
		Law: "L02", Name: "a relist tells deletions first",
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
	{
		Law: "L03", Name: "a missed deletion is told", Source: clientGo(93, 98),
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
		Law: "L03", Name: "every deletion has its addition",
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
		Law: "L04", Name: "an object made anew is another one",
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
		Law: "L04", Name: "an object made anew under a watch is another one",
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
	{
		Law: "L05", Name: "the cache is there first", Source: clientGo(119, 121),
		play: func(p *play) {
			i := p.informer(Options{})
			w := p.witnessWith(i, Handler{}, func(h heard) {
				synced := i.HasSynced() // before that, a cache need not answer
				cached, ok := i.Get(types.NamespacedName{Namespace: h.pod.Namespace, Name: h.pod.Name})
				switch {
				case h.call == "delete":
					p.want(!ok || number(cached) > number(h.pod) || cached.UID != h.pod.UID, "%s is told while the cache has it", h)
				case ok:
					p.want(number(cached) >= number(h.pod), "%s is told at %s, the cache has %s", h, h.pod.ResourceVersion, cached.ResourceVersion)
				case synced: // or it is deleted by now
					there, err := p.srv.Get(pods, keyOf(h.pod.Name))
					p.want(err != nil || there.GetUID() != h.pod.UID, "%s is told, but the cache has no %s", h, h.pod.Name)
				}
			})
			p.run(i)
			for n := range 100 {
				p.put(fmt.Sprint("pod-", n%10), fmt.Sprint(n))
				if n%9 == 8 {
					p.delete(fmt.Sprint("pod-", n%10))
				}
				settle(time.Millisecond)
			}
			settle(time.Minute)
			w.lawful()
			w.agrees()
		},
	},
	{
		Law: "L06", Name: "a late handler hears of everything once", Source: clientGo(113, 119),
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
		Law: "L06", Name: "what was there is marked as initial", Source: clientGo(113, 116),
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
		Law: "L06", Name: "joining waits for nobody",
		play: func(p *play) {
			p.put("a", "1")
			i := p.informer(Options{})
			p.witnessWith(i, Handler{}, func(heard) { <-p.ctx.Done() })
			p.run(i)
			settle(time.Minute)
			joined := make(chan *witness, 1)
			go func() { joined <- p.witness(i) }()
			select {
			case late := <-joined:
				settle(time.Minute)
				late.tells("add a=1 (marked)")
			case <-time.After(time.Hour):
				p.breaks("a handler could not join while another was in a call")
			}
		},
	},
	{
		Law: "L07", Name: "who has left hears of no change after it", Source: clientGo(182, 185),
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
		Law: "L07", Name: "leaving waits for the call in progress", Source: clientGo(1139, 1140),
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
			p.want(w.in.Load() == 0, "the handler is in a call after it has left")
			n := len(w.all())
			settle(time.Hour)
			p.want(len(w.all()) == n, "%d calls after the handler had left", len(w.all())-n)
		},
	},
	{
		Law: "L07", Name: "leaving twice, and after the end, is safe", Source: clientGo(180, 180),
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
		Law: "L07", Name: "a handler may leave from inside a call",
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
				p.breaks("the handler did not come back from leaving")
			}
			settle(time.Minute)
			n := len(w.all())
			p.put("c", "1")
			settle(time.Minute)
			p.want(len(w.all()) == n, "%d calls after the handler had left", len(w.all())-n)
		},
	},
	{
		Law: "L08", Name: "a handler that blocks delays nobody", Source: clientGo(148, 149),
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
		Law: "L09", Name: "what a slow handler holds can be bounded",
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
		Law: "L09", Name: "how far a handler lags can be seen",
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
	{
		Law: "L10", Name: "after a panic the handler goes on",
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
	{
		Law: "L11", Name: "a resync goes to who asked for it", Source: clientGo(157, 162),
		play: func(p *play) {
			p.put("a", "1")
			i := p.informer(Options{})
			every := p.witnessWith(i, Handler{Every: time.Minute}, nil)
			never := p.witness(i)
			p.run(i)
			settle(10*time.Minute + time.Second)
			resyncs := len(every.story()) - 1
			p.want(resyncs >= 8 && resyncs <= 11, "%d resyncs in ten minutes, one a minute was asked for", resyncs)
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
		Law: "L11", Name: "resyncs do not pile up before a slow handler",
		play: func(p *play) {
			p.put("a", "0")
			i := p.informer(Options{})
			w := p.witnessWith(i, Handler{Every: time.Second}, func(heard) { time.Sleep(time.Minute) })
			p.run(i)
			settle(time.Hour)
			p.put("a", "1")
			settle(5 * time.Minute)
			p.want(slices.ContainsFunc(w.all(), func(h heard) bool { return h.call == "update" }),
				"a change is not told within 5 minutes: it stands behind resyncs")
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

// await waits for an error of a call that takes a context, for at most an hour.
func await(p *play, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(p.ctx, time.Hour)
	defer cancel()
	return call(ctx)
}

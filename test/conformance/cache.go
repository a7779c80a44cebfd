package conformance

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// byState is an index function used by several cases.
func byState(pod *corev1.Pod) []string { return []string{pod.Labels["state"]} }

// cache lists the cases about reading the cache.
var cache = []Case{
	{
		Law: "L05", Name: "the cache is updated before the handlers", Source: clientGo(119, 121),
		play: func(p *play) {
			i := p.informer(Options{})
			w := p.witnessWith(i, Handler{}, func(h heard) {
				synced := i.HasSynced() // until then, objects may be missing from the cache
				cached, ok := i.Get(types.NamespacedName{Namespace: h.pod.Namespace, Name: h.pod.Name})
				switch {
				case h.call == "delete":
					p.want(!ok || number(cached) > number(h.pod) || cached.UID != h.pod.UID, "%s is delivered while the cache still has it", h)
				case ok:
					p.want(number(cached) >= number(h.pod), "%s is delivered at %s, but the cache has %s", h, h.pod.ResourceVersion, cached.ResourceVersion)
				case synced: // otherwise it has been deleted in the meantime
					there, err := p.srv.Get(pods, keyOf(h.pod.Name))
					p.want(err != nil || there.GetUID() != h.pod.UID, "%s is delivered, but the cache has no %s", h, h.pod.Name)
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
		Law: "L12", Name: "a reader sees a relist whole or not at all",
		play: func(p *play) {
			const n = 300
			for k := range n {
				p.put(fmt.Sprint("pod-", k), "old")
			}
			i := p.informer(Options{})
			var relist atomic.Bool
			p.witnessWith(i, Handler{}, func(heard) { // read while the list is being applied, in case that takes several steps
				fresh, all := 0, i.List()
				for _, o := range all {
					if o.Labels["state"] == "new" {
						fresh++
					}
				}
				p.want(!relist.Load() || len(all) == n && (fresh == 0 || fresh == n), "of %d objects %d are new", len(all), fresh)
			})
			p.run(i)
			settle(time.Minute)
			relist.Store(true)
			p.away(func() {
				for k := range n {
					p.put(fmt.Sprint("pod-", k), "new")
				}
			})
			p.equal(i)
		},
	},
	{
		Law: "L13", Name: "the version of the cache is a promise",
		play: func(p *play) {
			i := p.informer(Options{})
			v := offered[Versioned](p, i)
			written := map[string]int{}
			check := func() {
				said := atoi(v.Version())
				if said == 0 {
					return
				}
				have := map[string]int{}
				for _, o := range i.List() {
					have[o.Name] = number(o)
				}
				for name, at := range written {
					p.want(at > said || have[name] >= at, "the cache says %d, but has %s at %d, written at %d", said, name, have[name], at)
				}
			}
			p.run(i)
			settle(time.Minute)
			for k := range 500 {
				name := fmt.Sprint("pod-", k%50)
				written[name] = atoi(p.put(name, fmt.Sprint(k)))
				runtime.Gosched()
				check()
				if k%100 == 99 {
					p.away(func() { written["pod-0"] = atoi(p.put("pod-0", fmt.Sprint(k))) })
					check()
				}
			}
			settle(time.Minute)
			check()
			p.want(atoi(v.Version()) >= written["pod-49"], "the cache says %q at the end, %d was written", v.Version(), written["pod-49"])
		},
	},
	{
		Law: "L14", Name: "a write is read after waiting for its version",
		play: func(p *play) {
			i, _ := p.synced(Options{})
			w := offered[Waiting](p, i)
			for k := range 20 {
				rv := p.put("a", fmt.Sprint(k))
				p.must(await(p, func(ctx context.Context) error { return w.WaitForVersion(ctx, rv) }))
				o, ok := i.Get(keyOf("a"))
				p.want(ok && number(o) >= atoi(rv), "the cache lacks the version waited for")
			}
		},
	},
	{
		Law: "L14", Name: "a wait ends with its context",
		play: func(p *play) {
			i, _ := p.synced(Options{})
			w := offered[Waiting](p, i)
			ctx, cancel := context.WithTimeout(p.ctx, time.Minute)
			defer cancel()
			began := time.Now()
			p.want(w.WaitForVersion(ctx, "999999") != nil, "a version that does not exist was reached")
			p.want(time.Since(began) <= time.Minute+time.Second, "the wait took %s, its context a minute", time.Since(began))
		},
	},
	{
		Law: "L15", Name: "an index finds what a scan finds", Source: clientGo(119, 121),
		play: func(p *play) {
			i := p.informer(Options{Index: byState})
			index := offered[Indexed](p, i)
			check := func() {
				for k := range 5 {
					state := fmt.Sprint(k)
					var want, got []string
					for _, o := range i.List() {
						if o.Labels["state"] == state {
							want = append(want, o.Name)
						}
					}
					found, err := index.ByIndex(state)
					p.must(err)
					for _, o := range found {
						got = append(got, o.Name)
					}
					slices.Sort(want)
					slices.Sort(got)
					p.want(slices.Equal(want, got), "state %s: the index has %q, the cache %q", state, got, want)
				}
			}
			p.run(i)
			settle(time.Minute)
			for k := range 300 {
				if p.put(fmt.Sprint("pod-", k%30), fmt.Sprint(k*k%5)); k%11 == 10 {
					p.delete(fmt.Sprint("pod-", k%30))
				}
				if k%50 == 49 {
					p.away(func() { p.put("pod-1", fmt.Sprint(k%5)) })
				}
				settle(time.Millisecond)
				check()
			}
		},
	},
	{
		Law: "L15", Name: "an index function that panics loses no object",
		play: func(p *play) {
			p.put("a", "1")
			p.put("b", "2")
			p.put("c", "1")
			i := p.informer(Options{Index: func(o *corev1.Pod) []string {
				if o.Name == "b" {
					panic(errRefused)
				}
				return byState(o)
			}})
			index := offered[Indexed](p, i)
			p.run(i)
			settle(time.Hour)
			p.equal(i)
			found, err := index.ByIndex("1")
			p.must(err)
			p.want(len(found) == 2, "the index has %d of 2 objects whose values are known", len(found))
		},
	},
}

func atoi(s string) (n int) {
	_, _ = fmt.Sscan(s, &n)
	return n
}

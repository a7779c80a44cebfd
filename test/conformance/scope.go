package conformance

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// scopes lists the cases about an informer's scope and about shared informers.
var scopes = []Case{
	{
		Law: "L17", Name: "an informer of one namespace holds only that namespace",
		play: func(p *play) {
			elsewhere := func(state string) {
				o := pod("a", state)
				o.Namespace = "bank"
				_, err := p.srv.Put(o)
				p.must(err)
			}
			p.put("a", "1")
			elsewhere("1")
			i, w := p.synced(Options{Namespace: "shop"})
			p.put("a", "2")
			elsewhere("2")
			settle(time.Minute)
			p.away(func() { p.put("a", "3"); elsewhere("3") })
			p.must(p.srv.Delete(pods, types.NamespacedName{Namespace: "bank", Name: "a"}))
			settle(time.Minute)
			w.changes("add a=1 (marked)", "update a=2", "update a=3")
			p.want(len(i.List()) == 1, "the cache has %d objects, want one", len(i.List()))
			_, ok := i.Get(types.NamespacedName{Namespace: "bank", Name: "a"})
			p.want(!ok, "the cache has a pod of another namespace")
		},
	},
	{
		Law: "L25", Name: "equal requests get one informer", Source: linesOf("informers/factory.go", 268, 269),
		play: func(p *play) {
			f := p.factory()
			one, other := p.ask(f), p.ask(f)
			first, second := p.witness(one), p.witness(other)
			p.start(f)
			p.start(f)
			settle(time.Minute)
			third := p.witness(p.ask(f))
			p.start(f)
			p.put("a", "1")
			settle(time.Minute)
			for _, w := range []*witness{first, second, third} {
				w.tells("add a=1")
			}
			open, all := p.srv.Stats().Open("watch", pods.Resource), p.srv.Stats().Requests("", pods.Resource)
			p.want(open == 1, "%d watches are open", open)
			p.want(all <= 2, "%d requests for one informer", all)
		},
	},
	{
		Law: "L25", Name: "the last release of an informer stops it",
		play: func(p *play) {
			f := p.factory()
			lending := offered[Lending](p, f)
			_, returnOne := lending.Borrow()
			i, returnOther := lending.Borrow()
			w := p.witness(i)
			p.start(f)
			settle(time.Minute)
			returnOne()
			p.put("a", "1")
			settle(time.Minute)
			w.tells("add a=1")
			returnOther()
			p.put("b", "1")
			settle(time.Minute)
			w.tells("add a=1")
			open := p.srv.Stats().Open("watch", pods.Resource)
			p.want(open == 0, "%d watches are open after the last release", open)
		},
	},
}

// factory creates a factory.
func (p *play) factory() Factory {
	f, err := offered[Collecting](p, p.stack).NewFactory()
	p.must(err)
	return f
}

// ask requests an informer from f.
func (p *play) ask(f Factory) Informer {
	i, err := f.Informer()
	p.must(err)
	return i
}

// start runs the informers requested from f until the case ends.
func (p *play) start(f Factory) {
	f.Start(p.ctx)
	p.runs.Go(func() {
		<-p.ctx.Done()
		p.guard("Wait", f.Wait)
	})
}

package simulation

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/object"
)

// Shapes of the widget kind. Between steps it has its usual shape.
var (
	usual     = shape("v1", true)
	unspaced  = shape("v1", false)
	versioned = shape("v2", true)
)

func shape(version string, namespaced bool) apiservertest.Resource {
	return apiservertest.Resource{
		GVR:  object.GVR{Group: "sim.millrace.dev", Version: version, Resource: "widgets"},
		Kind: "Widget", Namespaced: namespaced,
	}
}

// widgetKey returns a widget's key in the current shape.
func (p *play) widgetKey(who int) object.Key {
	key := keyOf(who)
	if !p.shape.Namespaced {
		key.Namespace = ""
	}
	return key
}

// definition removes the widget kind or restores it.
func (p *play) definition(Step) {
	if p.served {
		p.unserve()
	} else {
		p.serve(usual)
	}
}

// unserve removes the widget kind with all its objects.
func (p *play) unserve() {
	if !p.served {
		return
	}
	p.say("play", "widgets go")
	p.served = false
	var there []object.Key // in deletion order
	for _, o := range p.srv.Objects(p.shape.GVR) {
		there = append(there, object.KeyOf(o))
	}
	if err := p.srv.RemoveResource(p.shape.GVR); err != nil {
		p.breaks("remove widgets: %v", err)
	}
	rv := number(p.srv.RV())
	for n, key := range there {
		p.widgets.removed(key, rv-uint64(len(there)-1-n))
	}
}

// serve restores the widget kind.
func (p *play) serve(as apiservertest.Resource) {
	if p.served {
		return
	}
	p.say("play", "widgets come as %v, namespaced %v", as.GVR, as.Namespaced)
	p.served, p.shape = true, as
	if err := p.srv.AddResource(as); err != nil {
		p.breaks("add widgets: %v", err)
	}
}

// reshape temporarily gives the widget kind a different shape. It makes the kind cluster-scoped or, if N is
// odd, changes its version. Half of the time it injects no faults, so the expected state and status of every
// informer are known.
func (p *play) reshape(s Step) {
	p.serve(usual)
	well := s.N%4 >= 2 && !p.World.Garbled
	if well {
		p.heal()
		if !p.quiet() {
			return
		}
	}
	random := rand.New(rand.NewPCG(uint64(s.N), 11))
	last := func(as string, wrong func() []string) { p.last(random, well, as, wrong) }
	if s.N%2 == 0 {
		p.unserve()
		last("not served", p.unserved)
		p.serve(unspaced)
		last("of the whole cluster", p.wrong)
		p.unserve()
		last("not served again", p.unserved)
		p.serve(usual)
		return
	}
	p.replaceShape(versioned)
	newcomer := p.member("newcomer", Form{Of: Widgets, WatchTimeout: 30 * time.Second, Compact: s.Who%2 == 0})
	newcomer.join(Step{})
	newcomer.start()
	last("of another version", func() []string {
		newcomer.check()
		return append(p.unserved(), newcomer.settled()...)
	})
	newcomer.stop()
	p.replaceShape(usual)
}

// replaceShape changes the version of existing widgets.
func (p *play) replaceShape(by apiservertest.Resource) {
	p.say("play", "widgets become %v", by.GVR)
	if err := p.srv.ReplaceResource(p.shape.GVR, by); err != nil {
		p.breaks("replace widgets: %v", err)
	}
	p.shape = by
}

// last keeps a shape for a while and changes objects. If there are no faults, it waits until everything has
// settled.
func (p *play) last(random *rand.Rand, well bool, as string, wrong func() []string) {
	for range 1 + random.IntN(4) {
		p.burst(Step{Who: random.IntN(names), N: random.IntN(1000)})
		time.Sleep(time.Duration(random.Int64N(int64(20 * time.Second))))
		p.check()
	}
	var left []string
	for since := time.Now(); well && time.Since(since) < calm; {
		time.Sleep(10*time.Second + 11*time.Microsecond)
		p.check()
		if left = wrong(); len(left) == 0 || p.over() {
			return
		}
	}
	for _, w := range left {
		p.breaks("%s, %s after widgets became %s", w, calm, as)
	}
}

// unserved returns a violation for each widget informer that does not report that the kind is not served.
func (p *play) unserved() (all []string) {
	for _, m := range p.members {
		all = append(all, m.unserved()...)
	}
	return all
}

// unserved returns a violation unless the informer's status reports that its kind is not served, or is served
// only in a different version.
func (m *member[T]) unserved() (wrong []string) {
	if m.form.Of != Widgets || len(m.parts()) == 0 {
		return nil
	}
	st := m.Status().Reflector
	if !st.NotServed() {
		return []string{fmt.Sprintf("L22: %s does not say that its kind is not served: it is %s after %d failures, the last: %v", m.called, st.State, st.Attempts, st.Failure)}
	}
	want := []string{"the server does not serve", "Widget", usual.Version}
	if m.play.served {
		want = append(want, "did you mean", m.play.shape.Version)
	}
	for _, part := range want {
		if text := st.Failure.Error(); !strings.Contains(text, part) {
			wrong = append(wrong, fmt.Sprintf("L22: the failure of %s lacks %q: %s", m.called, part, text))
		}
	}
	return wrong
}

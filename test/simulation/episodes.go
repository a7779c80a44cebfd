package simulation

import (
	"math/rand/v2"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/apiservertest/network"
)

// Episodes are deeds that combine several faults in an order that random steps would rarely produce.

// trickle makes a client relist over a slow link while objects change.
func (p *play) trickle(s Step) {
	c := p.processes[s.Who%len(p.processes)]
	c.link.Set(network.Conditions{Latency: c.latency, Bandwidth: 3000 + 30*s.N})
	c.link.Cut()
	p.put(s.Who, s.N)
	p.putWidget(s.Who, s.N)
	p.srv.Compact()
	random := rand.New(rand.NewPCG(uint64(s.N), 5))
	for range 25 {
		time.Sleep(time.Second)
		change := Step{Who: random.IntN(names), N: random.IntN(1000)}
		if random.IntN(2) == 0 {
			p.deleteBoth(change)
		} else {
			p.put(change.Who, change.N)
			p.putWidget(change.Who, change.N)
		}
	}
	c.heal()
}

// interrupt stops an informer while a slow handler receives a list, then restarts it.
func (p *play) interrupt(s Step, m informer) {
	m.start()
	m.join(Step{N: 5})
	p.processes[s.Who%len(p.members)].link.Cut()
	for n := range 12 {
		p.put(s.Who+n, s.N+n)
		p.putWidget(s.Who+n, s.N+n)
	}
	p.srv.Compact()
	time.Sleep(3*time.Second + time.Duration(s.N)*time.Millisecond)
	m.stop()
	time.Sleep(time.Second)
	m.start()
}

// storm changes a few objects repeatedly while a client is disconnected.
func (p *play) storm(s Step) {
	p.processes[s.Who%len(p.processes)].link.Cut()
	for n := range 150 + s.N%100 {
		p.put(s.Who+n%3, s.N+n)
	}
}

// isolate delays the responses to a leader, then cuts it off from the network.
func (p *play) isolate(s Step) {
	c := p.elections.leader()
	if c == nil {
		return
	}
	p.say("play", "%s is isolated", c.called)
	link := c.process.link
	link.Set(network.Conditions{Latency: time.Second + s.For})
	time.Sleep(10*time.Second + time.Duration(s.N)*5*time.Millisecond)
	link.Set(network.Conditions{Latency: c.process.latency, Partition: true})
	time.Sleep(14*time.Second + time.Duration(s.Who)*60*time.Millisecond) // about when another candidate acquires the lease
	c.process.heal()
}

// rewind restores a backup without raising the versions, so they are reused. As long as nothing else happens,
// an informer can notice that the server's version is below the cache's or, once it is above and the server
// has forgotten the history, that objects have different UIDs. The schedule ends there.
func (p *play) rewind(s Step) {
	p.heal()
	if !p.quiet() {
		return
	}
	p.keep(Step{})
	p.rewrite(s, 0)
	if !p.quiet() {
		return
	}
	head := number(p.srv.RV())
	if s.N%4 == 0 {
		p.toggle(s)
	}
	p.ended = true
	for _, f := range p.fronts { // a lagging server would get past a cache's version unnoticed
		f.SetLag(0)
	}
	p.goBack(0)
	p.rewrite(s, head)
	if s.N%2 == 0 {
		p.srv.Compact()
	} else if s.N%3 == 0 {
		for _, f := range p.fronts {
			f.Faults().Add(apiservertest.Fault{Verb: "watch", Count: 1 + len(p.members), Do: []apiservertest.Action{apiservertest.Fail{Code: 410}}})
		}
	}
	time.Sleep(20 * time.Second)
}

// refuse makes the servers reject all watches permanently, and then changes objects. Lists must bring the
// caches up to date. The schedule ends there.
func (p *play) refuse(s Step) {
	p.heal()
	if !p.quiet() {
		return
	}
	p.ended = true
	p.unwatched = &apiservertest.Fault{Verb: "watch", Do: []apiservertest.Action{
		[]apiservertest.Action{
			apiservertest.Fail{Code: 400}, apiservertest.Fail{Code: 403}, apiservertest.Fail{Code: 405}, apiservertest.Fail{Code: 500},
			apiservertest.ErrorEvent{Status: metav1.Status{Status: metav1.StatusFailure, Code: 500, Reason: metav1.StatusReasonInternalError}},
		}[s.N%5],
	}}
	p.heal()
	for _, f := range p.fronts {
		f.Restart()
	}
	p.rewrite(Step{Who: s.Who, N: s.N / 5}, 0)
	p.goal = number(p.srv.RV())
}

// longStale is the age at which a cache is treated as stale, as for readiness.
const longStale = 15 * time.Minute

// freeze makes the servers reject all lists and watches of one resource, or of all resources. Synced
// informers for these resources, and no others, must report that they are stale (L31). Then the servers
// recover.
func (p *play) freeze(s Step) {
	p.heal()
	if !p.quiet() {
		return
	}
	frozen := []string{"", podGVR.Resource, p.shape.GVR.Resource}[s.N%3]
	code := []int{400, 401, 403, 405, 500, 503}[s.N/3%6]
	p.say("play", "%q is frozen with %d", frozen, code)
	for _, f := range p.fronts {
		for _, verb := range []string{"list", "watch"} {
			f.Faults().Add(apiservertest.Fault{Verb: verb, Resource: frozen, Do: []apiservertest.Action{apiservertest.Fail{Code: code}}})
		}
		f.Restart()
	}
	p.pass(longStale + 2*time.Minute)
	for _, m := range p.members {
		m.stale(frozen == "" || (frozen == p.shape.GVR.Resource) == (m.made().Of == Widgets))
	}
	p.heal()
}

// rewrite makes changes determined by s, each of which sets new content. If N is even, it replaces objects.
// Otherwise it updates them until the server has almost reached version below.
func (p *play) rewrite(s Step, below uint64) {
	random := rand.New(rand.NewPCG(uint64(s.N), 7))
	content := 2 * random.IntN(400)
	if below != 0 {
		content++
	}
	for n := range 4 + random.IntN(12) {
		who := random.IntN(names)
		switch {
		case s.N%2 == 0:
			p.replace(Step{Who: who, N: content + 2*n})
		case below == 0 || number(p.srv.RV())+4 < below:
			p.put(who, content+2*n)
			p.putWidget(who, content+2*n)
		}
	}
	if s.N%2 == 0 && below != 0 {
		p.replace(Step{Who: s.Who, N: content})
	}
}

// quiet waits until everything has settled.
func (p *play) quiet() bool {
	p.goal = number(p.srv.RV())
	for range 20 {
		time.Sleep(30*time.Second + 17*time.Microsecond)
		if p.check(); p.over() {
			return false
		}
		if len(p.wrong()) == 0 {
			return true
		}
	}
	return false
}

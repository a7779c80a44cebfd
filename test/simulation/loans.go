package simulation

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// loans are users of a factory that borrow informers and return them.
type loans struct {
	play    *play
	factory *factory.Factory
	cancel  context.CancelFunc
	open    []loan
	given   []func() <-chan struct{} // to be returned again
}

// loan is one informer in use by one user.
type loan struct {
	what     int // index in wanted
	informer *sharedinformer.Informer[*corev1.Pod]
	giveBack func() <-chan struct{}
}

// wanted are the informers that may be borrowed.
var wanted = []factory.For[*corev1.Pod]{{}, {Scope: factory.Scope{Labels: even}}}

// soon is how long a factory may take to stop or start an informer with slow handlers.
const soon = time.Minute

func newLoans(p *play) *loans {
	of := p.process(false)
	of.manners.hasty = true // two informers send the same requests
	l := &loans{play: p, factory: factory.New(of.client, factory.Options{})}
	l.start()
	return l
}

func (l *loans) start() {
	ctx, cancel := context.WithCancel(l.play.ctx)
	l.cancel = cancel
	l.factory.Start(ctx)
}

// restart stops and restarts everything during calls of handlers.
func (l *loans) restart(Step) {
	l.cancel()
	l.start()
}

// borrow adds a user with a slow handler.
func (l *loans) borrow(s Step) {
	what := s.Who % len(wanted)
	i, giveBack := factory.Borrow(l.factory, wanted[what])
	l.play.say("loans", "borrows %d", what)
	for _, other := range l.open {
		if other.what == what && other.informer != i {
			l.play.breaks("L25: there are two informers for %d", what)
		}
	}
	i.AddHandler(sharedinformer.HandlerFunc[*corev1.Pod](func(context.Context, sharedinformer.Event[*corev1.Pod]) error {
		time.Sleep(time.Duration(s.N) * time.Millisecond)
		return nil
	}))
	l.open = append(l.open, loan{what, i, giveBack})
}

// giveBack returns a borrowed informer, and sometimes returns one again later.
func (l *loans) giveBack(s Step) {
	if len(l.given) > 0 && s.N%3 == 0 {
		l.given[s.Who%len(l.given)]()
		return
	}
	if len(l.open) == 0 {
		return
	}
	n := s.Who % len(l.open)
	one := l.open[n]
	l.open = slices.Delete(l.open, n, n+1)
	l.given = append(l.given, one.giveBack)
	l.play.say("loans", "gives %d back", one.what)
	stopped := one.giveBack()
	if l.used(one.informer) {
		return
	}
	select {
	case <-stopped:
	case <-time.After(soon):
		l.play.breaks("L25: an informer goes on %s after its last user has given it back", soon)
		return
	}
	if state := one.informer.Status().Reflector.State; state != reflector.Stopped {
		l.play.breaks("L25: an informer that nobody uses any more is said to have stopped, and is %s", state)
	}
}

func (l *loans) used(i *sharedinformer.Informer[*corev1.Pod]) bool {
	return slices.ContainsFunc(l.open, func(o loan) bool { return o.informer == i })
}

// check finds informers that have users but do not run.
func (l *loans) check() {
	for _, o := range l.open {
		s := o.informer.Status().Reflector
		if (s.State == reflector.Stopped || s.State == reflector.Idle) && time.Since(s.Since) > soon {
			l.play.breaks("L25: an informer that has users is %s for %s", s.State, time.Since(s.Since))
		}
	}
}

// settled reports which informers have not synced.
func (l *loans) settled() (wrong []string) {
	for _, o := range l.open {
		if !o.informer.HasSynced() {
			wrong = append(wrong, name("L17: an informer of the factory has not synced: that for", o.what))
		}
	}
	return wrong
}

func (l *loans) stop() {
	l.cancel()
	l.factory.Wait()
}

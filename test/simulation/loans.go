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

// loans simulates a factory's users, who borrow and return informers.
type loans struct {
	play    *play
	factory *factory.Factory
	cancel  context.CancelFunc
	open    []loan
	given   []func() <-chan struct{} // already called; may be called again
}

// loan is an informer borrowed by one user.
type loan struct {
	what     int // index in wanted
	informer *sharedinformer.Informer[*corev1.Pod]
	giveBack func() <-chan struct{}
}

// wanted lists the informers that may be borrowed.
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

// restart restarts everything while handlers are being called.
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

// giveBack returns a borrowed informer, sometimes one that has already been returned.
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
		l.play.breaks("L25: an informer is still running %s after its last user returned it", soon)
		return
	}
	if state := one.informer.Status().Reflector.State; state != reflector.Stopped {
		l.play.breaks("L25: an unused informer was reported as stopped but is %s", state)
	}
}

func (l *loans) used(i *sharedinformer.Informer[*corev1.Pod]) bool {
	return slices.ContainsFunc(l.open, func(o loan) bool { return o.informer == i })
}

// check finds informers that have users but are not running.
func (l *loans) check() {
	for _, o := range l.open {
		s := o.informer.Status().Reflector
		if (s.State == reflector.Stopped || s.State == reflector.Idle) && time.Since(s.Since) > soon {
			l.play.breaks("L25: an informer with users has been %s for %s", s.State, time.Since(s.Since))
		}
	}
}

// settled reports which informers have not synced.
func (l *loans) settled() (wrong []string) {
	for _, o := range l.open {
		if !o.informer.HasSynced() {
			wrong = append(wrong, name("L17: a factory informer has not synced: that for", o.what))
		}
	}
	return wrong
}

func (l *loans) stop() {
	l.cancel()
	l.factory.Wait()
}

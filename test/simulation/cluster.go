package simulation

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/object"
)

// backup is what the cluster can go back to.
type backup struct {
	snapshot    *apiservertest.Snapshot
	at          time.Time
	pods, other int // the moments of it
	served      bool
}

// frontOf is the server that a step is about.
func (p *play) frontOf(s Step) *apiservertest.Server { return p.fronts[s.Who%len(p.fronts)] }

// lag has a server see changes later than they are made, or not at all.
func (p *play) lag(s Step) {
	p.frontOf(s).SetLag(s.For)
	p.frontOf(s).SetStuck(s.N%4 == 0)
}

// backup keeps the present state of the cluster.
func (p *play) keep(Step) {
	p.backup = &backup{p.srv.Snapshot(), time.Now(), p.pods.now, p.widgets.now, p.served}
}

// bump is by how much versions are raised at a restore, above the newest.
const bump = 1_000_000

// restore brings the cluster back to where it was. With an odd N, and where somebody else
// writes too, versions are raised then, as they should be. Otherwise they are used again,
// which an informer can only notice while the cluster is not yet where it was: nothing
// else happens in such a play.
func (p *play) restore(s Step) {
	if p.backup == nil {
		return
	}
	by := number(p.srv.RV()) - number(p.backup.snapshot.RV()) + bump
	if s.N%2 == 0 && writesAlone(p.World) {
		by, p.ended = 0, true
	}
	p.goBack(by)
}

// goBack restores the backup, with the versions raised.
func (p *play) goBack(by uint64) {
	p.restored.Add(1)
	p.ofCopier(func(c *copier) { c.lose(p.backup.at) })
	p.srv.RestoreBumped(p.backup.snapshot, by)
	rv := number(p.backup.snapshot.RV()) + by
	p.pods.restore(p.backup.pods, rv)
	p.widgets.restore(p.backup.other, rv)
	p.served = p.backup.served
}

// upgrade makes a server one that reads another default, or takes that back.
func (p *play) upgrade(s Step) {
	var defaults func(object.Object)
	if s.N%2 == 0 {
		defaults = func(o object.Object) { o.(*corev1.Pod).Spec.SchedulerName = "newer" }
	}
	if err := p.frontOf(s).Upgrade(podGVR, defaults); err != nil {
		p.breaks("upgrade: %v", err)
	}
}

// access takes rights away, and gives them back.
func (p *play) access(s Step) {
	switch s.N % 4 {
	case 0:
		p.srv.SetAuthorizer(apiservertest.Deny("", "pods", "list", "watch"))
	case 1:
		p.srv.SetAuthorizer(apiservertest.Deny("", "pods", "watch"))
	default:
		p.srv.SetAuthorizer(nil)
	}
}

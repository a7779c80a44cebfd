package simulation

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/object"
)

// backup is a cluster state that can be restored.
type backup struct {
	snapshot    *apiservertest.Snapshot
	at          time.Time
	pods, other int // when it was taken, as a moment in each history
	served      bool
}

// frontOf returns the server that a step selects.
func (p *play) frontOf(s Step) *apiservertest.Server { return p.fronts[s.Who%len(p.fronts)] }

// lag delays the changes a server sees, or freezes it altogether.
func (p *play) lag(s Step) {
	p.frontOf(s).SetLag(s.For)
	p.frontOf(s).SetStuck(s.N%4 == 0)
}

// keep saves the cluster's current state.
func (p *play) keep(Step) {
	p.backup = &backup{p.srv.Snapshot(), time.Now(), p.pods.now, p.widgets.now, p.served}
}

// bump is by how much a restore raises the versions above the newest one.
const bump = 1_000_000

// restore restores the backup. With an odd N, or if there are other writers, it raises the versions, as
// administrators should. Otherwise versions are reused. An informer can notice that only until the cluster
// reaches the informer's version again, so the schedule ends there.
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

// goBack restores the backup with raised versions.
func (p *play) goBack(by uint64) {
	p.restored.Add(1)
	p.ofCopier(func(c *copier) { c.lose(p.backup.at) })
	p.srv.RestoreBumped(p.backup.snapshot, by)
	rv := number(p.backup.snapshot.RV()) + by
	p.pods.restore(p.backup.pods, rv)
	p.widgets.restore(p.backup.other, rv)
	p.served = p.backup.served
}

// upgrade switches a server to different defaults or back.
func (p *play) upgrade(s Step) {
	var defaults func(object.Object)
	if s.N%2 == 0 {
		defaults = func(o object.Object) { o.(*corev1.Pod).Spec.SchedulerName = "newer" }
	}
	if err := p.frontOf(s).Upgrade(podGVR, defaults); err != nil {
		p.breaks("upgrade: %v", err)
	}
}

// access revokes permissions or grants them again.
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

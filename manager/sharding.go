package manager

import (
	"net/http"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace-dev/millrace/metrics"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/shard/membership"
)

// Shard returns the scope of this process's share, dividing objects by key. Without Options.Sharding, the
// scope covers everything. Use it for the informers of sharded kinds (factory.Scope.Shard), with
// shard.ByUID for the reconciled kind and shard.ByOwner for the objects that it owns. Do not shard kinds
// that every process needs in full, such as configuration. [Builder.Sharded] does this for a controller and
// its owned objects. Sharding is experimental.
func (m *Manager) Shard(key shard.Key) shard.Scope {
	if m.group == nil {
		return shard.Scope{}
	}
	return shard.Scope{Key: key, Share: m.group}
}

// addSharding creates the group. The group has its own client, so that renewals never queue behind other
// requests. It runs in Caches, so it starts before the controllers and stops after them, at which point
// their slots are immediately free.
func (m *Manager) addSharding() error {
	if m.opts.Sharding == nil {
		return nil
	}
	leases := runtime.NewScheme()
	if err := coordinationv1.AddToScheme(leases); err != nil {
		return err
	}
	client, err := rest.NewClient(m.cfg, leases)
	if err != nil {
		return err
	}
	m.clients = append(m.clients, client)
	if m.group, err = membership.New(client, *m.opts.Sharding); err != nil {
		return err
	}
	name := "group " + m.opts.Sharding.Name
	if err := m.claim(name); err != nil {
		return err
	}
	if err := m.groups[Caches].add(task{name: name, run: m.group.Run}); err != nil {
		return err
	}
	if err := m.ready.add("sharding", m.checkSharding); err != nil {
		return err
	}
	return m.metrics.Register(metrics.NewMemberships(m.group))
}

// checkSharding fails if this process takes no share of the work, for example because it lacks permission
// to use Leases.
func (m *Manager) checkSharding(*http.Request) error { return m.group.Status().Refusal }

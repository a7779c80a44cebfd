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

// Shard is what a key puts into this process's share of the work; without Options.Sharding,
// everything. It is for the scope of each informer whose kind is shared (factory.Scope.Shard):
// that of what is reconciled, by shard.ByUID, and those of what belongs to it, by
// shard.ByOwner. What every process needs, such as configuration, is left whole. Builder.Sharded
// does that for a controller and its owned objects. Sharding is experimental.
func (m *Manager) Shard(key shard.Key) shard.Scope {
	if m.group == nil {
		return shard.Scope{}
	}
	return shard.Scope{Key: key, Share: m.group}
}

// addSharding makes the group. It has a client of its own, so that a renewal never waits
// behind other requests. It runs with the caches, which follow it: it begins before the
// controllers and ends when they have, so that their slots are free at once.
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

// checkSharding fails where we take no part in the work, such as without the right to Leases.
func (m *Manager) checkSharding(*http.Request) error { return m.group.Status().Refusal }

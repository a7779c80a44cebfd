package controllerruntime

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientrest "k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/millrace-dev/millrace/adapters/clientgo"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/shard/membership"
)

// Group is a membership.Group that a manager runs: a group of processes that share work. Create it with
// [NewGroup], pass the result of Shard to Options.Shards, and add the group to the manager. All methods are
// safe for concurrent use.
type Group struct {
	*membership.Group
	client *rest.Client
}

var (
	_ manager.Runnable               = (*Group)(nil)
	_ manager.LeaderElectionRunnable = (*Group)(nil)
)

// dialTime and keepAlive have the same values as in client-go.
const (
	dialTime  = 30 * time.Second
	keepAlive = 30 * time.Second
)

// NewGroup creates this process's member of a group. It sends no requests yet. The group connects to the
// server configured by cfg over a separate connection, so that renewals do not queue up behind other
// requests. The default Logger is controller-runtime's. The options set the group's name and namespace. The
// process needs permission to create, delete, get, list, update and watch leases in that namespace.
func NewGroup(cfg *clientrest.Config, opts membership.Options) (*Group, error) {
	leases := runtime.NewScheme()
	if err := coordinationv1.AddToScheme(leases); err != nil {
		return nil, err
	}
	cfg = clientrest.CopyConfig(cfg)
	if cfg.Dial == nil {
		cfg.Dial = (&net.Dialer{Timeout: dialTime, KeepAlive: keepAlive}).DialContext
	}
	client, err := clientgo.FromConfigAndScheme(cfg, leases)
	if err != nil {
		return nil, fmt.Errorf("group %s: %w", opts.Name, err)
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(logr.ToSlogHandler(log.Log.WithName("membership")))
	}
	group, err := membership.New(client, opts)
	if err != nil {
		return nil, err
	}
	return &Group{group, client}, nil
}

// Shard returns this process's share of the work, as divided by a key function. For a nil group, it
// returns all of the work.
func (g *Group) Shard(key shard.Key) shard.Scope {
	if g == nil {
		return shard.Scope{}
	}
	return shard.Scope{Key: key, Share: g.Group}
}

// Start implements manager.Runnable. It participates in the group until ctx is done, and returns once the
// work in progress has finished and all slots have been handed over; see membership.Group.Run. The manager's
// GracefulShutdownTimeout should be longer than membership.Options.Patience.
func (g *Group) Start(ctx context.Context) error {
	defer g.client.CloseIdleConnections()
	return g.Run(ctx)
}

// NeedLeaderElection implements manager.LeaderElectionRunnable. It returns false: every replica
// participates.
func (g *Group) NeedLeaderElection() bool { return false }

// Ready is a healthz.Checker for manager.AddReadyzCheck. It returns an error with the reason if this
// process does not participate, for example because it lacks permission to use Leases.
func (g *Group) Ready(*http.Request) error { return g.Status().Refusal }

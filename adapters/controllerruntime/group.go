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

// Group is a membership.Group that a manager runs: the processes that share work. Make it
// with NewGroup, give its Shard to Options.Shards, and add it to the manager. All methods may
// be called from any goroutine.
type Group struct {
	*membership.Group
	client *rest.Client
}

var (
	_ manager.Runnable               = (*Group)(nil)
	_ manager.LeaderElectionRunnable = (*Group)(nil)
)

// dialTime and keepAlive are those of client-go's connections.
const (
	dialTime  = 30 * time.Second
	keepAlive = 30 * time.Second
)

// NewGroup makes the member of a group that this process is, and sends nothing. It reaches
// the server as cfg says, over a connection of its own, so that a renewal waits behind no other
// request. Without a Logger, controller-runtime's hears of it. The options name group and
// namespace; the process needs the verbs create, delete, get, list, update and watch on leases
// in there.
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

// Shard is what a key puts into this process's share of the work; of a nil group, everything.
func (g *Group) Shard(key shard.Key) shard.Scope {
	if g == nil {
		return shard.Scope{}
	}
	return shard.Scope{Key: key, Share: g.Group}
}

// Start implements manager.Runnable: it takes part until ctx is done, and returns when what
// was in hand has ended and all slots are handed over; see membership.Group.Run. The manager's
// GracefulShutdownTimeout should be longer than membership.Options.Patience.
func (g *Group) Start(ctx context.Context) error {
	defer g.client.CloseIdleConnections()
	return g.Run(ctx)
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica takes part.
func (g *Group) NeedLeaderElection() bool { return false }

// Ready is a healthz.Checker, for manager.AddReadyzCheck: it fails where this process takes no
// part in the work, such as without the right to Leases, and says why.
func (g *Group) Ready(*http.Request) error { return g.Status().Refusal }

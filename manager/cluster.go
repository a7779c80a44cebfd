package manager

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/scheme"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// ClusterOptions configure a Cluster. The zero value works.
type ClusterOptions struct {
	// Name tells clusters apart in messages, metrics and checks. The manager's
	// own has none; each other needs one.
	Name string

	// Scheme has the Go types. Nil is a scheme with the kinds of k8s.io/api.
	Scheme *runtime.Scheme

	// Factory holds for all informers: their scope, errors, patience.
	Factory factory.Options

	// SyncPeriod is what Cluster.SyncPeriod is drawn from. Default 10 h.
	SyncPeriod time.Duration

	// Logger hears of trouble. Nil is silent. It becomes that of the client
	// and of the informers where they have none.
	Logger *slog.Logger
}

// Cluster is one API server as a program sees it: a client, a mapper, and one
// informer per type and scope. A manager has its own; add others to it with Add.
type Cluster struct {
	name       string
	client     *rest.Client
	factory    *factory.Factory
	syncPeriod time.Duration
}

// NewCluster returns a cluster whose informers do not run. It sends nothing.
func NewCluster(cfg *rest.Config, opts ClusterOptions) (*Cluster, error) {
	c := &Cluster{name: opts.Name, syncPeriod: opts.SyncPeriod}
	switch {
	case cfg == nil:
		return nil, fmt.Errorf("%s: no rest.Config: get one from rest.LoadConfig", c)
	case c.syncPeriod < 0:
		return nil, fmt.Errorf("%s: SyncPeriod is %s: want a positive duration, or 0 for 10h", c, c.syncPeriod)
	case c.syncPeriod == 0:
		c.syncPeriod = 10 * time.Hour
	}
	if opts.Scheme == nil {
		opts.Scheme = scheme.New()
	}
	if opts.Logger != nil {
		cfg = cfg.Clone()
		if cfg.Logger == nil {
			cfg.Logger = opts.Logger
		}
		if opts.Factory.Logger == nil {
			opts.Factory.Logger = opts.Logger
		}
	}
	client, err := rest.NewClient(cfg, opts.Scheme)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c, err)
	}
	c.client, c.factory = client, factory.New(client, opts.Factory)
	return c, nil
}

// Client reads and writes.
func (c *Cluster) Client() *rest.Client { return c.client }

// Factory has the informers.
func (c *Cluster) Factory() *factory.Factory { return c.factory }

// Mapper knows where kinds are served.
func (c *Cluster) Mapper() *rest.Mapper { return c.client.Mapper() }

// Scheme has the Go types.
func (c *Cluster) Scheme() *runtime.Scheme { return c.client.Scheme() }

// SyncPeriod is how often a handler that wants to hear of every object now and
// then should ask for it (sharedinformer.HandlerOptions.Resync). It is drawn
// anew at each call, up to a tenth longer or shorter than the option, so that
// not all handlers are told at one time.
func (c *Cluster) SyncPeriod() time.Duration {
	spread := c.syncPeriod / 10
	return c.syncPeriod - spread + rand.N(2*spread+1)
}

// Run runs the informers until ctx is done.
func (c *Cluster) Run(ctx context.Context) error {
	c.factory.Start(ctx)
	<-ctx.Done()
	c.factory.Wait()
	c.client.CloseIdleConnections()
	return nil
}

// WaitForSync waits as factory.Factory.WaitForSync does.
func (c *Cluster) WaitForSync(ctx context.Context) error { return c.factory.WaitForSync(ctx) }

// Status returns the status of every informer, by name.
func (c *Cluster) Status() []sharedinformer.Status { return c.factory.Status() }

// Name is "cluster" and the name given, if any.
func (c *Cluster) Name() string {
	if c.name == "" {
		return "cluster"
	}
	return "cluster " + c.name
}

// String is Name.
func (c *Cluster) String() string { return c.Name() }

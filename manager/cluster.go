package manager

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/internal/jitter"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/discovery"
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

	// Namespaces, if not nil, are those of informers that name none themselves;
	// Cluster.SetNamespaces changes them. Empty means none so far,
	// metav1.NamespaceAll all. Kinds without namespaces are not affected.
	Namespaces []string

	// SyncPeriod is how often a controller made with ControllerOptions reconciles
	// every object of its sources again, and what Cluster.SyncPeriod is drawn from.
	// Nothing is read from the server for that. Default 10 h.
	SyncPeriod time.Duration

	// NewClient makes the client. Nil means rest.NewClient. A function that wraps it
	// may change the configuration, which is a copy, and put a RoundTripper of its
	// own in the way with WrapTransport.
	NewClient func(cfg *config.Config, scheme *runtime.Scheme) (*rest.Client, error)

	// NewCache makes the informers. Nil means factory.New; another one may give
	// each cluster other options, or hand out a factory that has informers already.
	NewCache func(client *rest.Client, opts factory.Options) (*factory.Factory, error)

	// Logger hears of trouble. Nil is silent. The client and the informers use it
	// too, if they have none of their own.
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
func NewCluster(cfg *config.Config, opts ClusterOptions) (*Cluster, error) {
	c := &Cluster{name: opts.Name, syncPeriod: opts.SyncPeriod}
	switch {
	case cfg == nil:
		return nil, fmt.Errorf("%s: no config.Config: get one from config.Load", c)
	case c.syncPeriod < 0:
		return nil, fmt.Errorf("%s: SyncPeriod is %s: want a positive duration, or 0 for 10h", c, c.syncPeriod)
	case c.syncPeriod == 0:
		c.syncPeriod = 10 * time.Hour
	}
	if opts.Scheme == nil {
		opts.Scheme = scheme.New()
	}
	cfg = cfg.Clone()
	if opts.Logger != nil {
		if cfg.Logger == nil {
			cfg.Logger = opts.Logger
		}
		if opts.Factory.Logger == nil {
			opts.Factory.Logger = opts.Logger
		}
	}
	if opts.Namespaces != nil {
		if opts.Factory.Namespaces != nil || opts.Factory.Scope.Namespaces != nil {
			return nil, fmt.Errorf("%s: Namespaces are set, and Factory names namespaces too: leave one of them out", c)
		}
		opts.Factory.Namespaces = opts.Namespaces
	}
	if err := c.make(cfg, opts); err != nil {
		return nil, err
	}
	return c, nil
}

// make makes client and factory, by the hooks where there are any.
func (c *Cluster) make(cfg *config.Config, opts ClusterOptions) (err error) {
	if opts.NewClient == nil {
		opts.NewClient = rest.NewClient
	}
	if opts.NewCache == nil {
		opts.NewCache = func(client *rest.Client, opts factory.Options) (*factory.Factory, error) {
			return factory.New(client, opts), nil
		}
	}
	switch c.client, err = opts.NewClient(cfg, opts.Scheme); {
	case err != nil:
		return fmt.Errorf("%s: %w", c, err)
	case c.client == nil:
		return fmt.Errorf("%s: NewClient returned no client, and no error", c)
	}
	switch c.factory, err = opts.NewCache(c.client, opts.Factory); {
	case err != nil:
		return fmt.Errorf("%s: %w", c, err)
	case c.factory == nil:
		return fmt.Errorf("%s: NewCache returned no factory, and no error", c)
	}
	return nil
}

// SetNamespaces changes ClusterOptions.Namespaces for all informers that follow
// them, while they run; see sharedinformer.Informer.SetNamespaces for what handlers
// hear. /readyz fails until it has taken effect. It fails where no Namespaces were
// set at first.
func (c *Cluster) SetNamespaces(namespaces []string) error {
	if err := c.factory.SetNamespaces(namespaces); err != nil {
		return fmt.Errorf("%s: %w", c, err)
	}
	return nil
}

// Client reads and writes.
func (c *Cluster) Client() *rest.Client { return c.client }

// Factory has the informers.
func (c *Cluster) Factory() *factory.Factory { return c.factory }

// Mapper knows where kinds are served.
func (c *Cluster) Mapper() *discovery.Mapper { return c.client.Mapper() }

// Scheme has the Go types.
func (c *Cluster) Scheme() *runtime.Scheme { return c.client.Scheme() }

// SyncPeriod is how often a handler that wants to hear of every object now and
// then should ask for it (sharedinformer.HandlerOptions.Resync). Each call draws it
// anew, up to a tenth longer or shorter than the option, so that not all handlers are
// called at one time. Controllers have it already.
func (c *Cluster) SyncPeriod() time.Duration {
	return jitter.Around(c.syncPeriod)
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

// Unsynced returns the informers for which WaitForSync would wait.
func (c *Cluster) Unsynced() []sharedinformer.Status { return c.factory.Unsynced() }

// Views returns every informer, by name, for those who look at all of them.
func (c *Cluster) Views() []sharedinformer.View { return c.factory.Views() }

// Name is "cluster" and the name given, if any.
func (c *Cluster) Name() string {
	if c.name == "" {
		return "cluster"
	}
	return "cluster " + c.name
}

// String is Name.
func (c *Cluster) String() string { return c.Name() }

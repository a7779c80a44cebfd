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
	// Name identifies the cluster in messages, metrics and checks. The manager's own cluster has no
	// name; all others need one.
	Name string

	// Scheme maps kinds to Go types. The default scheme contains the kinds in k8s.io/api.
	Scheme *runtime.Scheme

	// Factory sets the options for all informers, such as scope, error handling and patience.
	Factory factory.Options

	// Namespaces, if not nil, is the default for informers requested without namespaces. An empty slice
	// means no namespaces yet; metav1.NamespaceAll means all of them. Use [Cluster.SetNamespaces] to change
	// them. Cluster-scoped kinds are unaffected.
	Namespaces []string

	// SyncPeriod is the resync interval for controllers created with ControllerOptions, and the base value
	// for [Cluster.SyncPeriod]. Resyncs make no requests to the server. The default is 10 h.
	SyncPeriod time.Duration

	// NewClient creates the client. The default is rest.NewClient. A custom function receives a copy of the
	// configuration, and may modify it, for example to add its own RoundTripper with WrapTransport.
	NewClient func(cfg *config.Config, scheme *runtime.Scheme) (*rest.Client, error)

	// NewCache creates the informer factory. The default is factory.New. A custom function may change
	// options per cluster, or return a factory that already has informers.
	NewCache func(client *rest.Client, opts factory.Options) (*factory.Factory, error)

	// Logger logs failures. If it is nil, they are discarded. The client and the informers use it too,
	// unless they have their own.
	Logger *slog.Logger
}

// Cluster is everything a program needs to work with one API server: a client, a mapper, and one informer
// per type and scope. A manager has its own; add others with [Manager.Add].
type Cluster struct {
	name       string
	client     *rest.Client
	factory    *factory.Factory
	syncPeriod time.Duration
}

// NewCluster returns a cluster without starting its informers. It makes no requests.
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
			return nil, fmt.Errorf("%s: Namespaces is set, and so are the namespaces in Factory: remove one of the two", c)
		}
		opts.Factory.Namespaces = opts.Namespaces
	}
	if err := c.make(cfg, opts); err != nil {
		return nil, err
	}
	return c, nil
}

// make creates the client and the factory, using the hooks if they are set.
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
		return fmt.Errorf("%s: NewClient returned neither a client nor an error", c)
	}
	switch c.factory, err = opts.NewCache(c.client, opts.Factory); {
	case err != nil:
		return fmt.Errorf("%s: %w", c, err)
	case c.factory == nil:
		return fmt.Errorf("%s: NewCache returned neither a factory nor an error", c)
	}
	return nil
}

// SetNamespaces changes ClusterOptions.Namespaces for all informers that use them, even while they are
// running; see sharedinformer.Informer.SetNamespaces for the events that handlers receive. /readyz fails
// until the change has taken effect. SetNamespaces fails if ClusterOptions.Namespaces was nil.
func (c *Cluster) SetNamespaces(namespaces []string) error {
	if err := c.factory.SetNamespaces(namespaces); err != nil {
		return fmt.Errorf("%s: %w", c, err)
	}
	return nil
}

// Client returns the cluster's client.
func (c *Cluster) Client() *rest.Client { return c.client }

// Factory returns the cluster's informer factory.
func (c *Cluster) Factory() *factory.Factory { return c.factory }

// Mapper returns the client's mapper, which maps kinds to resources.
func (c *Cluster) Mapper() *discovery.Mapper { return c.client.Mapper() }

// Scheme returns the client's scheme.
func (c *Cluster) Scheme() *runtime.Scheme { return c.client.Scheme() }

// SyncPeriod returns an interval for handlers that need periodic resyncs
// (sharedinformer.HandlerOptions.Resync). Each call returns a random value within 10 % of the configured
// period, so that handlers do not all resync at once. Controllers already do this.
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

// WaitForSync is like [factory.Factory.WaitForSync].
func (c *Cluster) WaitForSync(ctx context.Context) error { return c.factory.WaitForSync(ctx) }

// Status returns the status of every informer, sorted by name.
func (c *Cluster) Status() []sharedinformer.Status { return c.factory.Status() }

// Unsynced returns the status of the informers that WaitForSync would wait for.
func (c *Cluster) Unsynced() []sharedinformer.Status { return c.factory.Unsynced() }

// Views returns a view of every informer, sorted by name.
func (c *Cluster) Views() []sharedinformer.View { return c.factory.Views() }

// Name returns "cluster", followed by the configured name if there is one.
func (c *Cluster) Name() string {
	if c.name == "" {
		return "cluster"
	}
	return "cluster " + c.name
}

// String returns c.Name().
func (c *Cluster) String() string { return c.Name() }

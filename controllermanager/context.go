package controllermanager

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/events"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/internal/jitter"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/discovery"
	"github.com/millrace-dev/millrace/shard"
)

// Context is what one controller is made of. Its methods may be called from any
// goroutine.
type Context struct {
	name    string
	client  *rest.Client
	factory *factory.Factory
	served  Resources
	started <-chan struct{}
	opts    *Options
	events  *events.Recorder
}

// Name is the controller's.
func (c *Context) Name() string { return c.name }

// Client writes in the controller's name; see Options.NewClient.
func (c *Context) Client() *rest.Client { return c.client }

// Factory has the informers, which all controllers share.
func (c *Context) Factory() *factory.Factory { return c.factory }

// Mapper knows where kinds are served. Its RESTMapper method makes it apimachinery's
// interface.
func (c *Context) Mapper() *discovery.Mapper { return c.factory.Client().Mapper() }

// Scheme has the Go types.
func (c *Context) Scheme() *runtime.Scheme { return c.factory.Client().Scheme() }

// Events records events in the controller's name. They are sent while it runs, and the
// rest when it has returned.
func (c *Context) Events() *events.Recorder { return c.events }

// Served is what the server served when the controller was made.
func (c *Context) Served() Resources { return c.served }

// InformersStarted is closed when every controller that is not skipped has been made,
// and so has asked for its shared informers. A controller that finds out only while it
// runs what to watch waits for this, lest it make an informer that another one asks
// for.
func (c *Context) InformersStarted() <-chan struct{} { return c.started }

// ResyncPeriod is how often a handler that wants to hear of every object now and
// then should ask for it. Each call draws it anew, between Options.MinResyncPeriod and
// twice that, so that not all are called at one time.
func (c *Context) ResyncPeriod() time.Duration {
	return jitter.Longer(c.opts.MinResyncPeriod, c.opts.MinResyncPeriod)
}

// Logger is that of the options, with the controller's name; never nil.
func (c *Context) Logger() *slog.Logger { return c.opts.Logger.With("controller", c.name) }

// Controller returns Options.Controller for this controller, to be changed and given
// to controller.New: with the logger of the options, and a resync period of its own.
func (c *Context) Controller() controller.Options {
	opts := c.opts.Controller
	if opts.Logger == nil {
		opts.Logger = c.opts.Logger // controller.New adds the name
	}
	if opts.Resync == 0 {
		opts.Resync = c.ResyncPeriod()
	}
	return opts
}

// ClientFor returns a client that reads from the informer that all controllers share
// and writes in this one's name. A kind that bypasses the cache (factory.Options.DisableFor) it
// reads from the server, in this one's name as well.
func ClientFor[T object.Object](c *Context) *controller.Client[T] {
	return clientWith(c, factory.For[T]{})
}

// Shard is what a key puts into this process's share of the work; everything, where the
// processes do not share it. See Options.Shard.
func (c *Context) Shard(key shard.Key) shard.Scope { return c.opts.Shard(key) }

// ClientOf is ClientFor for what a key puts into this process's share, as Context.Shard has it.
func ClientOf[T object.Object](c *Context, key shard.Key) *controller.Client[T] {
	return clientWith(c, factory.For[T]{Scope: factory.Scope{Shard: c.Shard(key)}})
}

func clientWith[T object.Object](c *Context, of factory.For[T]) *controller.Client[T] {
	resource := rest.ResourceFor[T](c.client)
	if c.factory.Disabled(resource.Kind()) {
		return controller.NewClient(nil, resource)
	}
	return controller.NewClient(factory.InformerWith(c.factory, of), resource)
}

// Clients returns a function for Options.NewClient: each controller gets a client of
// its own, which says its name to the server after the user agent of cfg.
func Clients(cfg *config.Config, scheme *runtime.Scheme) func(controller string) (*rest.Client, error) {
	return func(controller string) (*rest.Client, error) {
		if cfg == nil {
			return rest.NewClient(nil, scheme) // which says what to do
		}
		own := cfg.Clone()
		if own.UserAgent == "" {
			own.UserAgent = "controller-manager"
		}
		own.UserAgent += "/" + controller
		return rest.NewClient(own, scheme)
	}
}

// Resources are what a server serves.
type Resources map[object.GVR]bool

// Has reports whether a resource is served. An empty version is any.
func (r Resources) Has(gvr object.GVR) bool {
	if gvr.Version != "" {
		return r[gvr]
	}
	for served := range r {
		if served.GroupResource() == gvr.GroupResource() {
			return true
		}
	}
	return false
}

// discover asks a server what it serves. A group that cannot be discovered, because
// the server behind it is down, counts as not served.
func discover(ctx context.Context, mapper *discovery.Mapper) (Resources, error) {
	mappings, err := mapper.Mappings(ctx)
	if len(mappings) == 0 && err != nil {
		return nil, fmt.Errorf("cannot find out what the server serves: %w", err)
	}
	served := Resources{}
	for _, m := range mappings {
		served[m.Resource] = true
	}
	return served, nil
}

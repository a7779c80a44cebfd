package controllermanager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
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

// Context provides the clients, informers and other dependencies of a single controller. Its methods are
// safe for concurrent use.
type Context struct {
	name    string
	client  *rest.Client
	factory *factory.Factory
	served  Resources
	started <-chan struct{}
	opts    *Options
	events  *events.Recorder
}

// Name returns the controller's name.
func (c *Context) Name() string { return c.name }

// Client returns a client whose writes carry the controller's name; see Options.NewClient.
func (c *Context) Client() *rest.Client { return c.client }

// Factory returns the informer factory, which all controllers share.
func (c *Context) Factory() *factory.Factory { return c.factory }

// Mapper returns the mapper, which maps kinds to resources. Its RESTMapper method returns apimachinery's
// interface.
func (c *Context) Mapper() *discovery.Mapper { return c.factory.Client().Mapper() }

// Scheme returns the scheme with the Go types.
func (c *Context) Scheme() *runtime.Scheme { return c.factory.Client().Scheme() }

// Events returns an event recorder that uses the controller's name. Events are sent while the controller is
// running, and any remaining ones after it has returned.
func (c *Context) Events() *events.Recorder { return c.events }

// Served returns the resources that the server served when the controller was created.
func (c *Context) Served() Resources { return c.served }

// InformersStarted returns a channel that is closed once all controllers except skipped ones have been
// created, and have thus requested their shared informers. A controller that selects kinds at run time
// should wait for it, so as not to create an informer that another controller is about to request.
func (c *Context) InformersStarted() <-chan struct{} { return c.started }

// ResyncPeriod returns a resync period for a handler: a random duration between Options.MinResyncPeriod
// and twice that, so that handlers do not all resync at once.
func (c *Context) ResyncPeriod() time.Duration {
	return jitter.Longer(c.opts.MinResyncPeriod, c.opts.MinResyncPeriod)
}

// Logger returns the configured logger with the controller's name. It is never nil.
func (c *Context) Logger() *slog.Logger { return c.opts.Logger.With("controller", c.name) }

// Controller returns a copy of Options.Controller for this controller, with the configured logger and
// its own resync period. Modify it as needed and pass it to controller.New.
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

// ClientFor returns a client that reads from the shared informer and writes under the controller's name. If
// the kind bypasses the cache (factory.Options.DisableFor), the client sends its reads to the server as
// well.
func ClientFor[T object.Object](c *Context) *controller.Client[T] {
	return clientWith(c, factory.For[T]{})
}

// Shard returns the scope of this process's share, dividing objects by key. Without sharding, the scope
// covers everything. See Options.Shard.
func (c *Context) Shard(key shard.Key) shard.Scope { return c.opts.Shard(key) }

// ClientOf is like [ClientFor], limited to the share returned by [Context.Shard].
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

// Clients returns a function for Options.NewClient that creates a client for each controller, with the
// controller's name appended to cfg's user agent.
func Clients(cfg *config.Config, scheme *runtime.Scheme) func(controller string) (*rest.Client, error) {
	return func(controller string) (*rest.Client, error) {
		if cfg == nil {
			return rest.NewClient(nil, scheme) // the error explains the fix
		}
		own := cfg.Clone()
		if own.UserAgent == "" {
			own.UserAgent = "controller-manager"
		}
		own.UserAgent += "/" + controller
		return rest.NewClient(own, scheme)
	}
}

// Resources is the set of resources served by a server.
type Resources map[object.GVR]bool

// Has reports whether the server serves a resource. An empty version matches any version.
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

// discover returns the resources served by the server, without using earlier results. If a single API group
// cannot be discovered because its server is down, it is treated as not served. If the core group or the list of
// named groups cannot be read, discover fails.
func discover(ctx context.Context, mapper *discovery.Mapper) (Resources, error) {
	mapper.Invalidate()
	mappings, err := mapper.Mappings(ctx)
	partial, ok := errors.AsType[*discovery.Error](err)
	if err != nil && (!ok || len(mappings) == 0 || slices.ContainsFunc(partial.Failures, func(f discovery.Failure) bool { return f.GroupVersion.Empty() })) {
		return nil, fmt.Errorf("cannot discover the server's resources: %w", err)
	}
	served := Resources{}
	for _, m := range mappings {
		served[m.Resource] = true
	}
	return served, nil
}

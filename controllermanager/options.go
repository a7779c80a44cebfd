package controllermanager

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/shard"
)

// Defaults of [Options].
const (
	// DefaultMinResyncPeriod is the default of kube-controller-manager.
	DefaultMinResyncPeriod   = 12 * time.Hour
	DefaultStartInterval     = 50 * time.Millisecond
	DefaultDiscoveryInterval = time.Minute
)

// Options configure a Manager. The zero value works.
type Options struct {
	// Controllers selects the controllers to run; see [Registry.Select]. The default is "*".
	Controllers string

	// NewClient creates the client for a controller's writes, so the server's audit log and flow
	// control can distinguish controllers; see [Clients]. If it is nil, all controllers use the
	// factory's client.
	NewClient func(controller string) (*rest.Client, error)

	// Shard, if not nil, implements Context.Shard, for example as manager.Manager.Shard of a manager
	// with Options.Sharding. If it returns a share, the controllers run in every process, and a
	// controller that works on everything is an error. Add controllers that run only on a leader, or
	// that work on everything in every process, to another Manager.
	Shard func(shard.Key) shard.Scope

	// MinResyncPeriod is the lower bound of [Context.ResyncPeriod]. Default DefaultMinResyncPeriod.
	MinResyncPeriod time.Duration

	// StartInterval is the minimum time between the starts of two controllers. Each interval is up to
	// twice as long, so that many instances of the program do not start in step. Default
	// DefaultStartInterval; negative means none.
	StartInterval time.Duration

	// DiscoveryInterval is how often discovery is repeated while a controller is skipped. Default
	// DefaultDiscoveryInterval; negative means never.
	DiscoveryInterval time.Duration

	// Controller holds options for all controllers, such as their metrics; see [Context.Controller]. A
	// RateLimiter cannot be shared.
	Controller controller.Options

	// Logger logs which controllers run and which do not. If it is nil, nothing is logged.
	Logger *slog.Logger
}

// complete fills in the defaults, and fails if the options are invalid.
func (o *Options) complete() error {
	switch {
	case o.MinResyncPeriod < 0:
		return fmt.Errorf("MinResyncPeriod is %s: want a positive duration, or 0 for %s", o.MinResyncPeriod, DefaultMinResyncPeriod)
	case o.Controller.RateLimiter != nil:
		return errors.New("Controller.RateLimiter is set: all controllers would share their failure counts; give each its own in Descriptor.New")
	case o.MinResyncPeriod == 0:
		o.MinResyncPeriod = DefaultMinResyncPeriod
	}
	if o.StartInterval == 0 {
		o.StartInterval = DefaultStartInterval
	}
	if o.DiscoveryInterval == 0 {
		o.DiscoveryInterval = DefaultDiscoveryInterval
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Shard == nil {
		o.Shard = func(shard.Key) shard.Scope { return shard.Scope{} }
	}
	return nil
}

// share returns this process's share, or nil without sharding.
func (o *Options) share() (s shard.Share, err error) {
	err = failure.Apart("Shard", func() error {
		s = o.Shard(shard.ByUID()).Share
		return nil
	})
	return s, err
}

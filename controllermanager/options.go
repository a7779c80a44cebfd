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
	// DefaultMinResyncPeriod is the same as in kube-controller-manager.
	DefaultMinResyncPeriod   = 12 * time.Hour
	DefaultStartInterval     = 50 * time.Millisecond
	DefaultDiscoveryInterval = time.Minute
)

// Options configure a Manager. The zero value works.
type Options struct {
	// Name identifies the Manager in messages, and in a manager.Manager. The default is "controller manager".
	Name string

	// Controllers selects the controllers to run; see [Registry.Select]. The default is "*".
	Controllers string

	// NewClient creates a client for each controller's writes, so that the server's audit log and flow
	// control can distinguish controllers; see [Clients]. If it is nil, all controllers use the factory's
	// client.
	NewClient func(controller string) (*rest.Client, error)

	// Shard, if not nil, implements Context.Shard. An example is the Shard method of a manager.Manager with
	// Options.Sharding. If it returns a share, the controllers run in every process, and it is an error if
	// one of them handles all objects. Controllers that run only on the leader, or that handle all objects
	// in every process, belong in another Manager with a different Name.
	Shard func(shard.Key) shard.Scope

	// MinResyncPeriod is the minimum [Context.ResyncPeriod]. Default DefaultMinResyncPeriod.
	MinResyncPeriod time.Duration

	// StartInterval is the minimum time between controller starts. Intervals are randomly extended to up to
	// twice the minimum, so that several instances of the program do not start in lockstep. The default is
	// DefaultStartInterval; a negative value means no delay.
	StartInterval time.Duration

	// DiscoveryInterval is how often discovery is repeated while a controller is skipped. The default is
	// DefaultDiscoveryInterval; a negative value disables it.
	DiscoveryInterval time.Duration

	// Controller sets options for all controllers, such as their metrics; see [Context.Controller]. It must
	// not set a RateLimiter, because controllers cannot share one. If it comes from a manager's ControllerOptions, set
	// Resync to 0 for MinResyncPeriod to apply.
	Controller controller.Options

	// Logger logs which controllers are running and which are not. If it is nil, nothing is logged.
	Logger *slog.Logger
}

// complete fills in the defaults. It fails if the options are invalid.
func (o *Options) complete() error {
	switch {
	case o.MinResyncPeriod < 0:
		return fmt.Errorf("MinResyncPeriod is %s: want a positive duration, or 0 for %s", o.MinResyncPeriod, DefaultMinResyncPeriod)
	case o.Controller.RateLimiter != nil:
		return errors.New("Controller.RateLimiter is set: all controllers would share their failure counts; give each its own in Descriptor.New")
	case o.MinResyncPeriod == 0:
		o.MinResyncPeriod = DefaultMinResyncPeriod
	}
	if o.Name == "" {
		o.Name = "controller manager"
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

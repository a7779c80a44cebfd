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

// The defaults of Options.
const (
	// DefaultMinResyncPeriod is that of kube-controller-manager.
	DefaultMinResyncPeriod   = 12 * time.Hour
	DefaultStartInterval     = 50 * time.Millisecond
	DefaultDiscoveryInterval = time.Minute
)

// Options configure a Manager. The zero value works.
type Options struct {
	// Controllers are the ones to run; see Registry.Select. Empty means "*".
	Controllers string

	// NewClient makes the client with which a controller writes, so that the
	// server's audit log and flow control can tell controllers apart; see Clients.
	// If it is nil, all write with the client of the factory.
	NewClient func(controller string) (*rest.Client, error)

	// Shard, if not nil, is what Context.Shard returns, such as manager.Manager.Shard of a
	// manager with Options.Sharding. If it gives this process a share, the controllers run
	// in every process, and one that works on everything is an error: what only a leader
	// is to run, or every process whole, goes into another Manager.
	Shard func(shard.Key) shard.Scope

	// MinResyncPeriod is the lower bound of Context.ResyncPeriod. Default
	// DefaultMinResyncPeriod.
	MinResyncPeriod time.Duration

	// StartInterval is the least time between the starts of two controllers; each
	// time is up to twice as long, so that many such programs do not start in step.
	// Default DefaultStartInterval; negative means none.
	StartInterval time.Duration

	// DiscoveryInterval is how often the server is asked again what it serves while a
	// controller is skipped. Default DefaultDiscoveryInterval; negative means never.
	DiscoveryInterval time.Duration

	// Controller has what the options of all controllers share, such as where their
	// metrics go; see Context.Controller. A RateLimiter cannot be shared.
	Controller controller.Options

	// Logger hears which controllers run and which do not. Nil is silent.
	Logger *slog.Logger
}

// complete fills in defaults, or says what cannot be.
func (o *Options) complete() error {
	switch {
	case o.MinResyncPeriod < 0:
		return fmt.Errorf("MinResyncPeriod is %s: want a positive duration, or 0 for %s", o.MinResyncPeriod, DefaultMinResyncPeriod)
	case o.Controller.RateLimiter != nil:
		return errors.New("Controller.RateLimiter is set: all controllers would count their failures together; give each its own in Descriptor.New")
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

// share asks for the share of this process; nil is everything.
func (o *Options) share() (s shard.Share, err error) {
	err = failure.Apart("Shard", func() error {
		s = o.Shard(shard.ByUID()).Share
		return nil
	})
	return s, err
}

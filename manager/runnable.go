package manager

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace-dev/millrace/events"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/internal/patience"
	"github.com/millrace-dev/millrace/serving"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/webhook"
)

// A Runnable is a component of the program. Soon after ctx is done, Run must stop everything it started
// and return. If it returns an error other than ctx's, the manager stops. Messages identify a Runnable by
// its Name method, whose result must be unique. If it has no such method, they use its String method or its
// type.
type Runnable interface {
	Run(ctx context.Context) error
}

// RunnableFunc is an adapter to allow the use of ordinary functions as a [Runnable].
type RunnableFunc func(context.Context) error

// Run calls the function.
func (f RunnableFunc) Run(ctx context.Context) error { return f(ctx) }

// A Readier is a Runnable that waits for its own sources, as a controller does. The manager calls Run
// without waiting for the caches to sync. From then on, /readyz fails as long as Ready returns an error.
type Readier interface {
	Runnable
	Ready() error
}

// A Warmer is a Runnable that prepares for its work even while another process is the leader. The
// manager calls Warmup at startup; it should wait for the sources that Run needs and return once Run could
// start working immediately. Run is called once this process is the leader and Warmup has returned, even if
// other caches are not synced. If Warmup fails, the manager stops.
type Warmer interface {
	Runnable
	Warmup(ctx context.Context) error
}

// A LeaderElectionRunnable chooses whether it runs only on the leader.
type LeaderElectionRunnable interface {
	Runnable
	NeedLeaderElection() bool
}

// sharer is a runnable, such as a controller, that may handle only a share of the objects. If Share returns
// a non-nil value, the runnable must run in every process.
type sharer interface {
	Share() shard.Share
}

// unfinisher is a runnable that lists its long-running work and, while it is stopping, the work that keeps
// Run from returning. Controllers implement it.
type unfinisher interface {
	Unfinished() []string
}

// unfinishedPatience limits the duration of a call to Unfinished. A queue waits for a rate limiter for half of it.
const unfinishedPatience = 2 * time.Second

// unfinishedOf returns a function that calls r.Unfinished, or returns nil if r has no such method.
func unfinishedOf(r Runnable) func() []string {
	u, ok := r.(unfinisher)
	if !ok {
		return func() []string { return nil }
	}
	var asked patience.Call
	return func() []string {
		var left []string
		var err error
		if !asked.Within(unfinishedPatience, func() {
			err = failure.Apart("Unfinished", func() error { left = u.Unfinished(); return nil })
		}) {
			return []string{"its Unfinished has not returned"}
		}
		if err != nil {
			return []string{err.Error()}
		}
		return left
	}
}

// listener is a runnable whose port is opened before anything runs.
type listener interface {
	Runnable
	Listen() error
	Close() error
}

// cache is a runnable in the Caches group that other runnables wait for, such as a cluster or an
// informer.
type cache interface {
	WaitForSync(context.Context) error
}

// A Group determines when a runnable starts and stops; see the package documentation.
type Group int

// Groups, in start order.
const (
	Servers Group = iota
	Webhooks
	Caches
	recorders
	Others
	warmUps
	LeaderElected
	groups int = iota
)

// String returns the name of the group's constant.
func (g Group) String() string {
	switch g {
	case Servers:
		return "Servers"
	case Webhooks:
		return "Webhooks"
	case Caches:
		return "Caches"
	case recorders:
		return "Recorders"
	case Others:
		return "Others"
	case warmUps:
		return "WarmUps"
	case LeaderElected:
		return "LeaderElected"
	}
	return fmt.Sprintf("Group(%d)", int(g))
}

// groupOf returns a runnable's default group.
func groupOf(r Runnable) Group {
	if s, ok := r.(sharer); ok && s.Share() != nil {
		return Others // each process handles its own share
	}
	switch r := r.(type) {
	case *serving.Server:
		return Servers
	case *webhook.Server:
		return Webhooks
	case *Cluster:
		return Caches
	case *events.Recorder:
		return recorders
	case LeaderElectionRunnable:
		if !r.NeedLeaderElection() {
			return Others
		}
	}
	return LeaderElected
}

// nameOf returns a runnable's name for messages. unique reports whether it came from a Name method.
func nameOf(r Runnable) (name string, unique bool) {
	if named, ok := r.(interface{ Name() string }); ok {
		if name := named.Name(); name != "" {
			return name, true
		}
	}
	if described, ok := r.(fmt.Stringer); ok {
		return fmt.Sprint(described), false // fmt.Sprint recovers from a panicking String method
	}
	return fmt.Sprintf("%T", r), false
}

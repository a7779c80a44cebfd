package manager

import (
	"context"
	"fmt"

	"github.com/millrace-dev/millrace/events"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/serving"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/webhook"
)

// Runnable is a part of the program. Run returns soon after ctx is done, when everything
// that it started has ended. If it returns an error other than that of ctx, the
// manager stops. Messages call it by its Name method, whose result must be unique; else
// by its String method, or by its type.
type Runnable interface {
	Run(ctx context.Context) error
}

// RunnableFunc makes a Runnable of a function.
type RunnableFunc func(context.Context) error

// Run calls the function.
func (f RunnableFunc) Run(ctx context.Context) error { return f(ctx) }

// Readier is a Runnable that itself waits for the sources it needs, as a controller
// does. Its Run is called whether all caches are synced or not, and from then on
// /readyz fails while Ready does.
type Readier interface {
	Runnable
	Ready() error
}

// Warmer is a Runnable that itself waits for the sources it needs, even while another
// process leads. Its Warmup is called at the start and returns when Run could begin at
// once. Run follows when we lead and Warmup has returned, whether other caches are
// synced or not. An error stops the manager.
type Warmer interface {
	Runnable
	Warmup(ctx context.Context) error
}

// LeaderElectionRunnable is a Runnable that says by itself whether only a leader
// may run it.
type LeaderElectionRunnable interface {
	Runnable
	NeedLeaderElection() bool
}

// sharer is a runnable that may have a share of the work, as controllers do, and so is to run
// in every process; nil is none.
type sharer interface {
	Share() shard.Share
}

// unfinisher is a runnable that names what it works on for long or, once it was asked to stop,
// what keeps its Run from returning. Controllers do.
type unfinisher interface {
	Unfinished() []string
}

// unfinished is what r says as an unfinisher; nil if it is none.
func unfinished(r Runnable) (left []string) {
	if u, ok := r.(unfinisher); ok {
		if err := failure.Apart("Unfinished", func() error { left = u.Unfinished(); return nil }); err != nil {
			return []string{err.Error()}
		}
	}
	return left
}

// listener is a runnable that opens a port. It does so before anything runs.
type listener interface {
	Listen() error
	Close() error
}

// cache is a runnable of the group Caches that others wait for. Clusters and
// informers are.
type cache interface {
	WaitForSync(context.Context) error
}

// Group says when a runnable starts and stops; see the package's doc.
type Group int

// The groups in the order in which they start.
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

// String names the group as its constant.
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

// groupOf is where a runnable belongs if nobody says it.
func groupOf(r Runnable) Group {
	if s, ok := r.(sharer); ok && s.Share() != nil {
		return Others // each process has its part
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

// nameOf is what messages call a runnable. unique says that it may occur once.
func nameOf(r Runnable) (name string, unique bool) {
	if named, ok := r.(interface{ Name() string }); ok {
		if name := named.Name(); name != "" {
			return name, true
		}
	}
	if described, ok := r.(fmt.Stringer); ok {
		return fmt.Sprint(described), false // which survives a String method that panics
	}
	return fmt.Sprintf("%T", r), false
}

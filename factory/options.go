package factory

import (
	"context"
	"log/slog"
	"time"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/snapshot"
	"github.com/millrace-dev/millrace/wire"
)

// Options apply to all informers of a factory. The zero value works.
type Options struct {
	// Namespaces is the default for informers requested without namespaces; Factory.SetNamespaces
	// changes it. Nil means all namespaces; an empty slice means none. To watch all namespaces
	// regardless of this option, request metav1.NamespaceAll in Scope.Namespaces.
	Namespaces []string

	// Scope is the default for informers requested without a scope; see For.Scope.
	Scope Scope

	// Keep selects the object fields to cache, for informers requested without Keep.
	// wire.WithoutManagedFields works for all types.
	Keep wire.Fields

	// DisableFor lists kinds that clients (controller.ClientFor) read from the server instead of an
	// informer: for example, kinds that are rarely read, kinds that must not stay in memory, such as
	// Secrets, or kinds that RBAC lets the program get but not list. Versions are ignored. The factory
	// still creates informers for these kinds on request.
	DisableFor []object.GVK

	// NoSharing disables the sharing of identical parts between cached objects. By default, all of the
	// factory's informers share them (W03), except those with a Transform. With sharing, if a program
	// violates L16 by modifying a cached object, it may modify many objects at once.
	NoSharing bool

	// Pool stores the shared parts. The default is a new pool. Factories with the same pool share parts
	// with each other, which is useful for multiple clusters with similar objects. Pool is ignored if
	// NoSharing is set.
	Pool *wire.Pool

	// Store selects how objects are cached, for informers requested without Store.
	Store sharedinformer.Store

	// Snapshot is a directory in which the informers store their caches, so that a later process can start
	// from them without listing; see sharedinformer.Options. Nil disables snapshots.
	Snapshot *snapshot.Directory

	// Initial selects how the initial state is read: by streaming, if the server supports it, or by
	// listing.
	Initial reflector.Initial

	// PageSize, if not 0, makes every list a consistent read in pages of this size, and disables streaming.
	PageSize int64

	// Timing sets the server timeouts and retry delays. The zero value selects the defaults.
	Timing reflector.Timing

	// Compact makes an informer that lags behind the network keep only the newest state of each object in
	// its queue. Handlers then miss intermediate states.
	Compact bool

	// SyncPatience is how long WaitForSync tolerates a failing informer before it gives up. The default is
	// 1 min; if negative, WaitForSync waits until its context is done.
	SyncPatience time.Duration

	// DetectMutations, if not 0, is how often each cached object is compared with a copy; modifications are
	// reported (L16). Use it in tests.
	DetectMutations time.Duration

	// OnError is called for each failure and decides whether to continue. It must return quickly. It may be
	// called concurrently. If OnError is nil, every failure is retried.
	OnError func(context.Context, *failure.Failure) failure.Verdict

	// OnState is called for every state change of a reflector. It must return quickly. It may be called
	// concurrently for different reflectors.
	OnState func(reflector.Status)

	// Logger logs failures at warn or error level, and states at debug level. Nil disables logging.
	Logger *slog.Logger

	// Flight records informer and handler events. The default is flight.Process.
	Flight *flight.Recorder
}

// informer returns the options for an informer with the given scope, in all namespaces.
func (o Options) informer(scope Scope) sharedinformer.Options {
	return sharedinformer.Options{
		LabelSelector: scope.Labels, FieldSelector: scope.Fields, Shard: scope.Shard,
		Initial: o.Initial, PageSize: o.PageSize, Timing: o.Timing, Snapshot: o.Snapshot,
		Compact: o.Compact, SyncPatience: o.SyncPatience, DetectMutations: o.DetectMutations,
		OnError: o.OnError, OnState: o.OnState, Logger: o.Logger, Flight: o.Flight,
	}
}

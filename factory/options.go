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

	// Keep selects the cached fields of the objects, for informers requested without Keep.
	// wire.WithoutManagedFields suits all types.
	Keep wire.Fields

	// DisableFor lists kinds that clients (controller.ClientFor) read from the server instead of an
	// informer: for example, kinds that are rarely read, kinds that must not stay in memory, such as
	// Secrets, or kinds that RBAC lets the program get but not list. Versions are ignored. The factory
	// still creates informers for these kinds on request.
	DisableFor []object.GVK

	// NoSharing disables the sharing of identical parts between cached objects. By default, all of the
	// factory's informers share them (W03), except those with a Transform. If a program violates L16 by
	// modifying a cached object, sharing makes the modification affect many objects at once.
	NoSharing bool

	// Pool stores the shared parts. The default is a new pool. Factories with the same pool share parts
	// with each other, which is useful for multiple clusters with similar objects. NoSharing disables it.
	Pool *wire.Pool

	// Store selects how objects are cached, for informers requested without Store.
	Store sharedinformer.Store

	// Snapshot is a directory for storing the informers' caches. A later process starts from them without
	// listing; see sharedinformer.Options. Nil disables snapshots.
	Snapshot *snapshot.Directory

	// Initial selects how the initial state is read: by streaming, if the server supports it, or by
	// listing.
	Initial reflector.Initial

	// PageSize, if not 0, makes every list a consistent read in pages of this many items, and disables
	// streaming.
	PageSize int64

	// Timing sets the server timeouts and retry delays. The zero value selects the defaults.
	Timing reflector.Timing

	// Compact keeps only the newest state of an object in the queue while an informer lags behind
	// the network. Handlers then miss intermediate states.
	Compact bool

	// SyncPatience is how long WaitForSync tolerates a failing informer before it gives up. The default is
	// 1 min; if negative, it waits until its context is done.
	SyncPatience time.Duration

	// DetectMutations, if not 0, is how often each cached object is compared with a copy; modifications are
	// reported (L16). Use it in tests.
	DetectMutations time.Duration

	// OnError is called for each failure and decides whether to continue. It must return quickly. Calls may
	// be concurrent. If OnError is nil, every failure is retried.
	OnError func(context.Context, *failure.Failure) failure.Verdict

	// OnState is called for each state change of each reflector. It must return quickly. Calls for
	// different reflectors may be concurrent.
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

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

	// DisableFor lists kinds that clients read from the server instead of an informer
	// (controller.ClientFor): for example kinds that are rarely read, that must not stay in memory, such
	// as Secrets, or that RBAC allows the program to get but not to list. The version is ignored. The
	// factory still creates informers for them on request.
	DisableFor []object.GVK

	// NoSharing disables sharing of equal parts between cached objects. By default all informers of the
	// factory share them (W03), except those with a Transform. If a program violates L16 by modifying a
	// cached object, sharing makes it modify many objects at once.
	NoSharing bool

	// Pool holds the shared parts. The default is a new pool. Factories with the same pool share parts
	// with each other, which is useful for several clusters with similar objects. NoSharing disables it.
	Pool *wire.Pool

	// Store selects how objects are cached, for informers requested without Store.
	Store sharedinformer.Store

	// Snapshot is a directory for the caches of informers. A later process starts from them without
	// lists; see sharedinformer.Options. Nil disables snapshots.
	Snapshot *snapshot.Directory

	// Initial selects how the initial state is read: streamed if the server supports it, or listed.
	Initial reflector.Initial

	// PageSize, if not 0, makes every list a consistent read in pages of that many items, and
	// disables streaming.
	PageSize int64

	// Timing sets how long to wait for the server and between attempts. The zero value selects the
	// defaults.
	Timing reflector.Timing

	// Compact keeps only the newest state of an object in the queue while an informer lags behind
	// the network. Handlers then miss intermediate states.
	Compact bool

	// SyncPatience is how long WaitForSync tolerates a failing informer before it gives up. The default
	// is 1 min; with a negative value only the context ends the wait.
	SyncPatience time.Duration

	// DetectMutations, if not 0, compares each cached object with a copy at this interval, and
	// reports changes (L16). Use it in tests.
	DetectMutations time.Duration

	// OnError is called with each failure and decides whether to continue. It must return quickly.
	// Calls may be concurrent. If OnError is nil, every failure is retried.
	OnError func(context.Context, *failure.Failure) failure.Verdict

	// OnState is called with each change of state of each reflector. It must return quickly. Calls
	// for several reflectors may be concurrent.
	OnState func(reflector.Status)

	// Logger logs failures at level warn or error, and states at level debug. Nil disables logging.
	Logger *slog.Logger

	// Flight records the events of informers and handlers. The default is flight.Process.
	Flight *flight.Recorder
}

// informer returns the options for an informer of a scope in all namespaces.
func (o Options) informer(scope Scope) sharedinformer.Options {
	return sharedinformer.Options{
		LabelSelector: scope.Labels, FieldSelector: scope.Fields, Shard: scope.Shard,
		Initial: o.Initial, PageSize: o.PageSize, Timing: o.Timing, Snapshot: o.Snapshot,
		Compact: o.Compact, SyncPatience: o.SyncPatience, DetectMutations: o.DetectMutations,
		OnError: o.OnError, OnState: o.OnState, Logger: o.Logger, Flight: o.Flight,
	}
}

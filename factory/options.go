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

// Options hold for all informers of a factory. The zero value works.
type Options struct {
	// Namespaces are those of the informers that are asked for without naming any,
	// and Factory.SetNamespaces changes them. Nil means all, an empty slice none. To
	// have all namespaces for good, whatever the factory's are, ask for
	// metav1.NamespaceAll in Scope.Namespaces.
	Namespaces []string

	// Scope is that of informers that are asked for without one.
	Scope Scope

	// Keep says which fields of the objects are cached, for informers that are
	// asked for without saying it. wire.WithoutManagedFields suits all types.
	Keep wire.Fields

	// DisableFor are kinds that clients read from the server, without an informer
	// (controller.ClientFor): kinds that are seldom read, that must not stay in memory,
	// such as Secrets, or that may be got but not listed. The version does not matter.
	// The factory still gives informers of them to callers that ask.
	DisableFor []object.GVK

	// NoSharing gives every cached object memory of its own. By default all informers
	// of the factory hold equal parts of objects once (W03), except those with a
	// Transform. A program that breaks L16 by changing a cached object then changes
	// many at once.
	NoSharing bool

	// Pool holds the equal parts. Nil is a pool of the factory's own. Factories that are
	// given one pool share between them too, such as those of several clusters with
	// much the same objects. With NoSharing it is not used.
	Pool *wire.Pool

	// Store says how objects are cached, for informers that are asked for without saying
	// it.
	Store sharedinformer.Store

	// Snapshot is where the informers keep what they have, so that a later process need not
	// list it; see sharedinformer.Options. Nil means nowhere.
	Snapshot *snapshot.Directory

	// Initial says how the initial state is read: streamed if the server can, or listed.
	Initial reflector.Initial

	// PageSize, if not 0, reads every list in pages of that many items, consistently, and
	// streams none.
	PageSize int64

	// Timing says how long to wait for a server and between attempts. The zero value has the
	// defaults.
	Timing reflector.Timing

	// Compact keeps only the newest state of an object in the queue while an informer lags
	// behind the network. Handlers then miss states in between.
	Compact bool

	// SyncPatience is how long WaitForSync watches an informer fail before it gives up.
	// Default 1 min; negative means that only the context counts.
	SyncPatience time.Duration

	// DetectMutations, if not 0, compares each cached object with a copy that often, and
	// reports changes (L16). It is meant for tests.
	DetectMutations time.Duration

	// OnError receives each failure and decides whether to go on. It must return soon. There may
	// be several calls at once. Nil means Retry.
	OnError func(context.Context, *failure.Failure) failure.Verdict

	// OnState receives each change of state of each reflector. Calls of several reflectors may
	// come at once. It must return soon.
	OnState func(reflector.Status)

	// Logger receives failures at level warn or error, and states at level debug. Nil is
	// silent.
	Logger *slog.Logger

	// Flight records the events of informers and handlers. Nil is flight.Process.
	Flight *flight.Recorder
}

// informer returns the options of an informer of all namespaces in a scope.
func (o Options) informer(scope Scope) sharedinformer.Options {
	return sharedinformer.Options{
		LabelSelector: scope.Labels, FieldSelector: scope.Fields, Shard: scope.Shard,
		Initial: o.Initial, PageSize: o.PageSize, Timing: o.Timing, Snapshot: o.Snapshot,
		Compact: o.Compact, SyncPatience: o.SyncPatience, DetectMutations: o.DetectMutations,
		OnError: o.OnError, OnState: o.OnState, Logger: o.Logger, Flight: o.Flight,
	}
}

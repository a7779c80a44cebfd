package sharedinformer

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/snapshot"
)

// Store selects how an informer caches its objects.
type Store uint8

const (
	// DefaultStore means Whole for a standalone informer, and the factory's Store for an informer from a
	// factory.
	DefaultStore Store = iota

	// Whole caches the objects themselves. Reads are free.
	Whole

	// Packed caches objects as bytes, which use a fraction of the memory (see wire.Packer), and decodes an
	// object when it is read. Concurrent readers share the decoded object, which is freed when the last one
	// releases it. Otherwise the cache behaves like a Whole one (C01).
	Packed
)

func (s Store) String() string {
	switch s {
	case DefaultStore:
		return "default"
	case Whole:
		return "whole"
	case Packed:
		return "packed"
	}
	return "unknown"
}

// MarshalText makes the store readable in JSON.
func (s Store) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Options configure an Informer. The zero value works.
type Options struct {
	// Name identifies the informer in messages. The default is the source's name followed by the selectors.
	Name string

	// LabelSelector and FieldSelector limit lists and watches on the server. Nil selects
	// everything.
	LabelSelector labels.Selector
	FieldSelector fields.Selector

	// Initial selects how the initial state is read: as a stream, if the server supports it, or as a list.
	Initial reflector.Initial

	// PageSize, if not 0, makes every list a consistent read in pages of that many items, and disables
	// streaming. By default the first list is read from the server's cache in one response, and later lists
	// in pages of 500.
	PageSize int64

	// Timing sets timeouts for the server and delays between attempts. The zero value selects the defaults.
	Timing reflector.Timing

	// Namespaces limits the informer to these namespaces, each listed and watched separately; SetNamespaces
	// changes them. Nil or a list containing metav1.NamespaceAll means all of the source's namespaces; an
	// empty slice means none. Order does not matter. For cluster-scoped kinds, any non-empty list means
	// everything. The source must support namespaces, as a rest.Resource's source does
	// (source.Description.Narrows).
	Namespaces []string

	// Shard limits the informer to this process's share of the objects: the ones in its slots. Slots may be
	// gained and lost while the informer runs. The zero value means all objects.
	//
	// Objects in other slots are not cached, and handlers do not receive them (S05). When a slot is lost, its
	// objects are dropped immediately, each with a Delete marked as Moved. When a slot is gained, a
	// consistent read lists all objects again and delivers the slot's objects as Adds marked as Moved (S03,
	// S04); Informer.Holds reports when that is done. The informer stays synced throughout.
	//
	// If the key is the UID or the namespace, the informer requests only the share's objects from the server
	// (KEP-5866). Status.Selection reports whether the server supports this. If it does, changes to other
	// objects do not advance the cache's version, and waiting for one of their versions takes until the next
	// bookmark.
	//
	// If the key depends on mutable fields, such as a label, those fields must be cached exactly as they are
	// on the server; transforms and some field selections are therefore rejected. A sharded informer cannot
	// have a Snapshot.
	Shard shard.Scope

	// Store selects how objects are cached.
	Store Store

	// Annotations lists the annotations to keep in the heads of a packed cache: object.Annotation returns
	// them without opening the object. Values are stored uncompressed.
	Annotations []string

	// Snapshot is a directory for the informer's cache. A later process starts from it without listing. It
	// contains one file per namespace, written periodically and when the informer stops. Nil disables
	// snapshots.
	//
	// The contents of a snapshot are not trusted until the server confirms them (C02). The informer syncs,
	// and handlers receive objects, once a watch from the snapshot's version has caught up with the version
	// the server had at startup. If the history has expired, or the server contradicts the snapshot, all
	// objects are listed; unchanged objects are not decoded again. Until then Informer.Stale returns the
	// loaded objects.
	//
	// If the file system hangs, the informer gives up reading after ten seconds and lists. A stop then waits up to
	// twelve seconds for the last write and leaves its goroutine behind.
	//
	// The source must provide its Origin, as a rest.Resource's source does (source.Description).
	Snapshot *snapshot.Directory

	// TransformVersion identifies the source's transform and its version. Without it, transformed objects are
	// not written to the snapshot, because a later process could not tell whether the transform has changed.
	TransformVersion string

	// Compact makes the queue keep only each object's newest state while the informer lags behind the
	// network. Handlers then miss intermediate states.
	Compact bool

	// SyncPatience is how long the Wait methods tolerate a list or watch that keeps failing, or a blocked
	// handler, while they wait for sync. After that they return an error, even if their context has not
	// expired, so that the problem can be looked into. The informer keeps trying. The default is 1 min; if
	// negative, they wait until their context is done.
	SyncPatience time.Duration

	// DetectMutations, if not 0, keeps a copy of every cached object and compares the two at this interval,
	// around each handler call, and when the object leaves the cache (L16). A modified object is reported
	// once, as a *MutationError in Status.Failure, to OnError and to Logger, and is not restored. Objects that
	// arrive after the report share no memory with it if the source's Description has a Pool. The copies share
	// no memory with each other and use more memory than the cache itself, so use this in tests.
	DetectMutations time.Duration

	// OnError is called with each failure and decides whether to continue. It must return quickly, because
	// the failing goroutine waits for it. Calls may be concurrent. If it panics or calls runtime.Goexit, that
	// is reported and counts as Retry. If OnError is nil, every failure is retried. If a handler or an index
	// function fails more than ten times in a second, OnError receives the first ten failures and the number
	// of the others (failure.Failure.Others).
	OnError func(context.Context, *failure.Failure) failure.Verdict

	// OnState is called whenever a reflector's state changes. It must return quickly. There is one reflector
	// per namespace in Namespaces, and these may call OnState concurrently.
	OnState func(reflector.Status)

	// Logger receives failures at level warn or error, and state changes at level debug. Nil disables
	// logging.
	Logger *slog.Logger

	// Flight records events from the informer and its handlers. The default is flight.Process.
	Flight *flight.Recorder
}

// reflector returns the options that are passed to each reflector.
func (o Options) reflector() reflector.Options {
	return reflector.Options{
		Name: o.Name, LabelSelector: o.LabelSelector, FieldSelector: o.FieldSelector,
		Initial: o.Initial, PageSize: o.PageSize, Timing: o.Timing,
		OnError: o.OnError, OnState: o.OnState, Logger: o.Logger,
	}
}

// Lag selects how undelivered changes are kept for a slow handler (L09).
type Lag uint8

const (
	// Unbounded keeps every change until it is delivered.
	Unbounded Lag = iota
	// Coalesce keeps at most one entry per object, the newest.
	Coalesce
)

// MarshalText makes the policy readable in JSON.
func (l Lag) MarshalText() ([]byte, error) {
	if l == Coalesce {
		return []byte("Coalesce"), nil
	}
	return []byte("Unbounded"), nil
}

// HandlerOptions configure one registration. The zero value works.
type HandlerOptions struct {
	// Name identifies the handler in Status, messages and metrics. The default is Place.
	Name string

	// Place is the file:line shown next to the name. The default is the caller of AddHandler. Code that adds
	// handlers on behalf of other code should pass that code's call site.
	Place string

	// Resync, if not 0, is the interval between resyncs, each of which delivers every cached object to the
	// handler again (L11). A handler that is not synced yet receives none. A resync that comes due before the
	// previous one has finished is skipped.
	Resync time.Duration

	// Lag is the lag policy for undelivered changes.
	Lag Lag

	// WithoutOld declares that the handler does not use Event.Old. Old is then the zero value, and a packed
	// cache does not open the old object. HandlerFuncs receive nil as the old object. Filter needs Old.
	WithoutOld bool

	// OnSync, if set, is called once, after the handler has returned from its last initial Add (L18) and
	// before it receives anything else. Namespaces added later do not trigger it again.
	OnSync func()

	// CrashOnPanic makes a panic in the handler crash the process after it is reported. Otherwise the handler
	// skips this event and continues with the next one (L10).
	CrashOnPanic bool
}

func (o *HandlerOptions) name() string {
	if o.Name == "" {
		return o.Place
	}
	return o.Name
}

func (o *HandlerOptions) label() string {
	if o.Name == "" {
		return "handler " + o.Place
	}
	return fmt.Sprintf("handler %q (%s)", o.Name, o.Place)
}

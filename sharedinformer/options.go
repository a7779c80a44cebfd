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

// Store says how an informer caches its objects.
type Store uint8

const (
	// DefaultStore is Whole for an informer by itself, and what the factory's options say
	// for one of a factory.
	DefaultStore Store = iota

	// Whole caches the objects themselves. To read one takes no time.
	Whole

	// Packed caches bytes, which take a fraction of the memory (see wire.Packer), and makes
	// an object of them when one is asked for. All who hold it at the same time get the
	// same one; it is gone when nobody does. Everything else is as with Whole (C01).
	Packed
)

// String names the store.
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

// MarshalText lets a status print readably as JSON.
func (s Store) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Options configure an Informer. The zero value works.
type Options struct {
	// Name says in messages what the informer reads. The default is the name of the source,
	// with the selectors.
	Name string

	// LabelSelector and FieldSelector narrow what is listed and watched, on the server. Nil
	// means everything.
	LabelSelector labels.Selector
	FieldSelector fields.Selector

	// Initial says how the initial state is read: streamed if the server can, or listed.
	Initial reflector.Initial

	// PageSize, if not 0, reads every list in pages of that many items, consistently, and
	// streams none. By default a first list comes whole from the server's cache, and a later
	// one in pages of 500.
	PageSize int64

	// Timing says how long to wait for a server and between attempts. The zero value has the
	// defaults.
	Timing reflector.Timing

	// Namespaces are those whose objects are wanted, each listed and watched on its
	// own; SetNamespaces changes them. Nil means all that the source has, as does
	// metav1.NamespaceAll among others, and an empty slice means none. The order does
	// not matter. For a kind without namespaces they mean nothing: it is cached whole,
	// once the source was asked for one of them. To name some, the source must be one that
	// Narrows, as that of a rest.Resource does (source.Description).
	Namespaces []string

	// Shard is what of the objects this process has: those in its slots, which come and go
	// while the informer runs. The zero value is all of them.
	//
	// Objects in other slots are not cached, and handlers do not hear of them (S05). When a
	// slot is lost, its objects are dropped at once, each with a Delete that is marked as
	// Moved; when one comes, a consistent read lists all objects anew, and tells of those in the
	// slot as Adds that are Moved (S03, S04). Informer.Holds tells when that is done.
	// The informer stays synced meanwhile.
	//
	// By UID and by namespace the server is asked for the objects of the share alone (KEP-5866).
	// Status.Selection says whether it sends no others. Then changes of others do not move the
	// version of the cache on, and who waits for one of those waits for a bookmark.
	//
	// Where the key reads what may change, such as a label, all of that must be cached as
	// the server has it, so that a transform and some choices of fields are refused. A
	// share has no Snapshot.
	Shard shard.Scope

	// Store says how objects are cached.
	Store Store

	// Annotations are those that heads of a packed cache have at hand: object.Annotation
	// finds them without opening the object. Their values take as much memory as they are
	// long.
	Annotations []string

	// Snapshot is where the informer keeps what it has, so that a later process begins with
	// it and need not list it: one file for each of Namespaces, written now and then and when
	// the informer stops. Nil means nowhere.
	//
	// A snapshot is never believed (C02). The informer is synced, and handlers hear of it,
	// when the server has confirmed it: a watch from there has caught up with the version
	// that the server had when the informer began. Where the history since then has expired,
	// or the server contradicts it, all is listed, and what has not changed is not decoded
	// again. Until then Informer.Stale shows what was read.
	//
	// The source must know its Origin, as that of a rest.Resource does (source.Description).
	Snapshot *snapshot.Directory

	// TransformVersion names the transform that the source's objects go through, and its
	// version. Without it, what has gone through a transform has no snapshot, since
	// nobody could tell whether the transform is still the same.
	TransformVersion string

	// Compact lets the queue keep only the newest state of an object while the
	// informer lags behind the network. Handlers then miss states in between.
	Compact bool

	// SyncPatience is how long WaitForSync watches an informer fail before it
	// gives up, though its context still has time: by then a person should
	// know. The informer goes on trying. Default 1 min; negative means that
	// only the context counts.
	SyncPatience time.Duration

	// DetectMutations, if not 0, keeps a copy of every cached object and
	// compares it that often, around each call of a handler, and whenever the
	// object leaves the cache (L16). What was changed stays so in the objects
	// that are there; those that come after the report share nothing with them,
	// if the source describes its Pool. The copies share nothing, which costs more
	// memory than the cache itself; it is meant for tests.
	DetectMutations time.Duration

	// OnError hears of each failure and decides whether to go on. What
	// the failure happened in waits for it, so it must return soon. There may be several
	// calls at once. A panic or runtime.Goexit in it is reported and
	// counts as Retry. Nil means Retry.
	OnError func(context.Context, *failure.Failure) failure.Verdict

	// OnState hears of each change of state of each reflector: there is one for each
	// of Namespaces, and calls of different ones may come at once. It must return soon.
	OnState func(reflector.Status)

	// Logger hears of failures at level warn or error, and of states at level debug.
	// Nil is silent.
	Logger *slog.Logger

	// Flight is the recorder of what happens to the informer and its handlers. Nil is the
	// process's, flight.Process.
	Flight *flight.Recorder
}

// reflector returns the part of the options that is each reflector's.
func (o Options) reflector() reflector.Options {
	return reflector.Options{
		Name: o.Name, LabelSelector: o.LabelSelector, FieldSelector: o.FieldSelector,
		Initial: o.Initial, PageSize: o.PageSize, Timing: o.Timing,
		OnError: o.OnError, OnState: o.OnState, Logger: o.Logger,
	}
}

// Lag says what is held for a handler that does not keep up (L09).
type Lag uint8

const (
	// Unbounded holds every change until the handler has heard it.
	Unbounded Lag = iota
	// Coalesce holds at most one entry per object, the newest.
	Coalesce
)

// MarshalText lets a status print readably as JSON.
func (l Lag) MarshalText() ([]byte, error) {
	if l == Coalesce {
		return []byte("Coalesce"), nil
	}
	return []byte("Unbounded"), nil
}

// HandlerOptions configure one registration. The zero value works.
type HandlerOptions struct {
	// Name appears in status, messages and metrics. The default is Place.
	Name string

	// Place is the file:line to name beside it. The default is that of the
	// AddHandler call. Code that adds handlers for others gives the place of
	// their call.
	Place string

	// Resync, if not 0, tells the handler of every cached object that often,
	// once it has synced (L11). A resync due before the previous one finished is
	// skipped.
	Resync time.Duration

	// Lag is the policy for changes that the handler has not heard yet.
	Lag Lag

	// WithoutOld says that the handler needs no Event.Old, which is the zero value then: a
	// packed cache need not open it. HandlerFuncs are given a nil old object. Filter needs
	// Old.
	WithoutOld bool

	// OnSync, if set, is called once, when the handler's last initial Add has
	// returned (L18), and before the handler hears of anything else. Namespaces that
	// come later do not call it again.
	OnSync func()

	// CrashOnPanic lets a panic of the handler end the process after it was
	// reported. Otherwise the handler gets the next change (L10).
	CrashOnPanic bool
}

// name is what messages call the handler.
func (o *HandlerOptions) name() string {
	if o.Name == "" {
		return o.Place
	}
	return o.Name
}

// label gives name and place.
func (o *HandlerOptions) label() string {
	if o.Name == "" {
		return "handler " + o.Place
	}
	return fmt.Sprintf("handler %q (%s)", o.Name, o.Place)
}

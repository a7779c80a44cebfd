package conformance

import (
	"context"
	"net"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Server is how a stack reaches the API server of a case. It speaks HTTP/1.1, asks for no
// credentials, and serves protobuf, JSON and CBOR.
type Server struct {
	URL  string
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Stack makes informers of the pods of one server.
type Stack interface {
	// NewInformer returns an informer that does not run yet.
	NewInformer(Options) (Informer, error)
}

// Options say what an informer is to do.
type Options struct {
	// Namespace is the one to watch; empty for all.
	Namespace string

	// LabelSelector narrows the informer on the server, if not empty.
	LabelSelector string

	// Index, if not nil, is the function of one index, for Indexed.
	Index func(*corev1.Pod) []string

	// Transform, if not nil, changes each object before it is cached.
	Transform func(*corev1.Pod) (*corev1.Pod, error)

	// DetectMutations asks for reports, to OnError, of cached objects that somebody has
	// changed. It is set only for stacks that are Detecting.
	DetectMutations bool

	// OnError, if not nil, is to hear of whatever the stack reports: a list or watch that
	// fails, an object that cannot be read, a handler that panics. It may be called by
	// several goroutines at once.
	OnError func(error)
}

// Informer keeps a cache of pods and tells handlers of changes. Objects that it gives out
// are not changed.
type Informer interface {
	// Run works until ctx is done and returns when it has ended.
	Run(ctx context.Context) error

	// HasSynced reports whether the cache has had a whole initial list.
	HasSynced() bool

	// Get looks up one cached pod.
	Get(key types.NamespacedName) (*corev1.Pod, bool)

	// List returns all cached pods, in any order.
	List() []*corev1.Pod

	// AddHandler adds a handler, before Run or later.
	AddHandler(Handler) (Registration, error)
}

// Handler is what one registration hears. No function is nil.
type Handler struct {
	// Add hears of a new object. Initial says that it belongs to what was there when the
	// handler joined.
	Add func(pod *corev1.Pod, initial bool)

	// Update hears of a change.
	Update func(old, new *corev1.Pod)

	// Delete hears of a deletion, with the last known state. Unknown says that the stack
	// has not seen the deletion itself, so that this may not be the final state.
	Delete func(pod *corev1.Pod, unknown bool)

	// Resync hears of an object again that has not changed.
	Resync func(pod *corev1.Pod)

	// Every is the period of resyncs that the handler asks for; none if zero.
	Every time.Duration

	// Coalesce asks for at most one pending call for each object. It is set only for
	// informers that are Coalescing.
	Coalesce bool
}

// Registration is a handler at an informer.
type Registration interface {
	// HasSynced reports whether the handler has heard of the whole initial list.
	HasSynced() bool

	// Remove takes the handler off, without waiting for a call in progress.
	Remove() error
}

// What a stack, an informer or a registration may offer besides. A case that needs one of
// these is not played without it.
type (
	// Detecting is a stack that knows Options.DetectMutations.
	Detecting interface{ Detects() }

	// Collecting is a stack that has factories.
	Collecting interface {
		NewFactory() (Factory, error)
	}

	// Queueing is a stack that has work queues. AddRateLimited of a new one waits for
	// first after the first failure of a key, and longer after each further one; some
	// jitter does no harm.
	Queueing interface {
		NewQueue(first time.Duration) Queue
	}

	// Writable is an informer whose users are given something by which they could write to
	// its cache. Write tries all of that with one pod. An informer that gives nothing of
	// the kind is none.
	Writable interface{ Write(*corev1.Pod) }

	// Indexed looks up by the index of Options.Index.
	Indexed interface {
		ByIndex(value string) ([]*corev1.Pod, error)
	}

	// Versioned says up to which resource version the cache is complete; empty if that
	// is not known.
	Versioned interface{ Version() string }

	// Waiting waits until the cache is complete up to a resource version.
	Waiting interface {
		WaitForVersion(ctx context.Context, version string) error
	}

	// Explaining waits until the informer has synced. Its error says why it has not.
	Explaining interface {
		WaitForSync(ctx context.Context) error
	}

	// Coalescing can bound what it holds for a slow handler: see Handler.Coalesce.
	Coalescing interface{ Coalesces() }

	// Restartable may run again after Run has returned.
	Restartable interface{ Restarts() }

	// Closer is a registration that waits for the call in progress.
	Closer interface {
		RemoveAndWait(ctx context.Context) error
	}

	// Lagging is a registration that says how many calls are still to be made.
	Lagging interface{ Pending() int }
)

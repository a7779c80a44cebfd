package conformance

import (
	"context"
	"net"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Server is the API server of a case. It speaks HTTP/1.1, requires no credentials, and serves protobuf,
// JSON and CBOR.
type Server struct {
	URL  string
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Stack creates informers for the pods of one server.
type Stack interface {
	// NewInformer returns an informer that is not running yet.
	NewInformer(Options) (Informer, error)
}

// Options configure an informer.
type Options struct {
	// Namespace is the namespace to watch; empty for all.
	Namespace string

	// LabelSelector, if not empty, filters on the server.
	LabelSelector string

	// Index, if not nil, is the function of one index, for Indexed.
	Index func(*corev1.Pod) []string

	// Transform, if not nil, changes each object before it is cached.
	Transform func(*corev1.Pod) (*corev1.Pod, error)

	// DetectMutations requests reports to OnError of changed cached objects. It is set only for stacks that
	// are Detecting.
	DetectMutations bool

	// OnError, if not nil, receives everything that the stack reports: failed lists and watches, unreadable
	// objects, panics of handlers. Several goroutines may call it at once.
	OnError func(error)
}

// Informer caches pods and notifies handlers of changes. The cases do not change the objects it returns.
type Informer interface {
	// Run runs the informer until ctx is done, and returns when it has ended.
	Run(ctx context.Context) error

	// HasSynced reports whether the cache has received a complete initial list.
	HasSynced() bool

	// Get returns a cached pod.
	Get(key types.NamespacedName) (*corev1.Pod, bool)

	// List returns all cached pods in any order.
	List() []*corev1.Pod

	// AddHandler adds a handler, before Run or later.
	AddHandler(Handler) (Registration, error)
}

// Handler is a set of callbacks, none of them nil.
type Handler struct {
	// Add is called for a new object. initial is true if the object existed when the handler joined.
	Add func(pod *corev1.Pod, initial bool)

	// Update is called for a change.
	Update func(old, new *corev1.Pod)

	// Delete is called for a deletion, with the last known state. unknown means that the stack did not see
	// the deletion, so this may not be the final state.
	Delete func(pod *corev1.Pod, unknown bool)

	// Resync is called for an unchanged object.
	Resync func(pod *corev1.Pod)

	// Every is the requested resync period; zero means none.
	Every time.Duration

	// Coalesce requests at most one pending call per object. It is set only for informers that are
	// Coalescing.
	Coalesce bool
}

// Registration is a handler of an informer.
type Registration interface {
	// HasSynced reports whether the handler has received the whole initial list.
	HasSynced() bool

	// Remove removes the handler without waiting for a call in progress.
	Remove() error
}

// The optional features of a stack, an informer or a registration. A case that needs a missing feature
// is not played.
type (
	// Detecting is a stack that supports Options.DetectMutations.
	Detecting interface{ Detects() }

	// Collecting is a stack that has factories.
	Collecting interface {
		NewFactory() (Factory, error)
	}

	// Queueing is a stack that has work queues. AddRateLimited delays a key by first after its first
	// failure, and longer after each further failure. Jitter is allowed.
	Queueing interface {
		NewQueue(first time.Duration) Queue
	}

	// Writable is an informer with a cache to which users can write. Write tries to write a pod in every
	// way there is. An informer without such ways does not implement Writable.
	Writable interface{ Write(*corev1.Pod) }

	// Indexed looks up objects by Options.Index.
	Indexed interface {
		ByIndex(value string) ([]*corev1.Pod, error)
	}

	// Versioned returns the resource version up to which the cache is complete, or "" if unknown.
	Versioned interface{ Version() string }

	// Waiting waits until the cache is complete up to a resource version.
	Waiting interface {
		WaitForVersion(ctx context.Context, version string) error
	}

	// Explaining waits until the informer has synced. Its error says why the informer has not.
	Explaining interface {
		WaitForSync(ctx context.Context) error
	}

	// Coalescing can bound the memory for a slow handler: see Handler.Coalesce.
	Coalescing interface{ Coalesces() }

	// Restartable may run again after Run has returned.
	Restartable interface{ Restarts() }

	// Closer is a registration that can wait for the call in progress.
	Closer interface {
		RemoveAndWait(ctx context.Context) error
	}

	// Lagging is a registration that returns its number of pending calls.
	Lagging interface{ Pending() int }
)

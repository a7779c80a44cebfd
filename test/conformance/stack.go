package conformance

import (
	"context"
	"net"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Server is the API server that a case runs against. It uses HTTP/1.1, requires no credentials, and serves
// protobuf, JSON and CBOR.
type Server struct {
	URL  string
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Stack creates informers for a server's pods.
type Stack interface {
	// NewInformer returns an informer that is not yet running.
	NewInformer(Options) (Informer, error)
}

// Options configure an [Informer].
type Options struct {
	// Namespace is the namespace to watch; empty for all.
	Namespace string

	// LabelSelector, if not empty, filters on the server.
	LabelSelector string

	// Index, if not nil, is an index function for [Indexed].
	Index func(*corev1.Pod) []string

	// Transform, if not nil, is applied to each object before it is cached.
	Transform func(*corev1.Pod) (*corev1.Pod, error)

	// DetectMutations asks the stack to report modifications of cached objects to OnError. It is set only for
	// stacks that implement [Detecting].
	DetectMutations bool

	// OnError, if not nil, is called for everything that the stack reports: failed lists and watches,
	// undecodable objects, handler panics. It may be called concurrently.
	OnError func(error)
}

// Informer caches pods and notifies handlers of changes. The cases do not modify the objects it returns.
type Informer interface {
	// Run runs the informer until ctx is done, and returns once it has stopped.
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

// Handler is a set of non-nil callbacks.
type Handler struct {
	// Add is called for a new object. initial is true if the object already existed when the handler was
	// added.
	Add func(pod *corev1.Pod, initial bool)

	// Update is called for a change.
	Update func(old, new *corev1.Pod)

	// Delete is called for a deletion, with the last known state. unknown is true if the stack missed the
	// deletion, so this may not be the final state.
	Delete func(pod *corev1.Pod, unknown bool)

	// Resync is called for an unchanged object.
	Resync func(pod *corev1.Pod)

	// Every is the requested resync period; zero means none.
	Every time.Duration

	// Coalesce asks for at most one pending call per object. It is set only for informers that implement
	// [Coalescing].
	Coalesce bool
}

// Registration is a handler added to an [Informer].
type Registration interface {
	// HasSynced reports whether the handler has received the complete initial list.
	HasSynced() bool

	// Remove removes the handler without waiting for a call in progress.
	Remove() error
}

// Optional features of a stack, an informer or a registration. A case that needs a missing feature does not
// run.
type (
	// Detecting is a [Stack] that supports Options.DetectMutations.
	Detecting interface{ Detects() }

	// Collecting is a [Stack] that has factories.
	Collecting interface {
		NewFactory() (Factory, error)
	}

	// Queueing is a [Stack] that has work queues. AddRateLimited delays a key by first after its first
	// failure, and longer after each subsequent one. Jitter is allowed.
	Queueing interface {
		NewQueue(first time.Duration) Queue
	}

	// Writable is an [Informer] whose cache has methods for writing. Write tries to write a pod with each of
	// them.
	Writable interface{ Write(*corev1.Pod) }

	// Indexed is an [Informer] that can look up objects by Options.Index.
	Indexed interface {
		ByIndex(value string) ([]*corev1.Pod, error)
	}

	// Versioned is an [Informer] that reports the resource version up to which the cache is complete, or ""
	// if unknown.
	Versioned interface{ Version() string }

	// Waiting is an [Informer] that can wait until its cache is complete up to a resource version.
	Waiting interface {
		WaitForVersion(ctx context.Context, version string) error
	}

	// Explaining is an [Informer] that can wait until it has synced, and otherwise return an error explaining
	// why it has not.
	Explaining interface {
		WaitForSync(ctx context.Context) error
	}

	// Coalescing is an [Informer] that can bound the memory used on behalf of a slow handler; see
	// Handler.Coalesce.
	Coalescing interface{ Coalesces() }

	// Restartable is an [Informer] that may run again after Run has returned.
	Restartable interface{ Restarts() }

	// Closer is a [Registration] that can wait for the call in progress.
	Closer interface {
		RemoveAndWait(ctx context.Context) error
	}

	// Lagging is a [Registration] that reports its number of pending calls.
	Lagging interface{ Pending() int }
)

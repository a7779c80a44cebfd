package apiservertest

import (
	"cmp"
	"log/slog"
	"time"
)

// Options say how a Server behaves. The zero value is a server with the
// built-in resources that lets everyone do everything.
type Options struct {
	// Seed determines UIDs, generated names and everything else that looks
	// random; see the package's Guarantees. Two servers with one seed and the same operations in the same
	// order hold the same objects, timestamps aside.
	Seed uint64

	// FirstRV is the resource version of the empty server; 100 if zero.
	FirstRV uint64

	// History is how many changes of each resource are kept at least for
	// watches that start in the past; 10,000 if zero.
	History int

	// BookmarkPeriod is the time between two bookmarks of one watch; one
	// minute if zero, as on a real server.
	BookmarkPeriod time.Duration

	// FreshnessWait is how long a list waits for a resource version of the
	// future before it answers 504; three seconds if zero, as on a real
	// server.
	FreshnessWait time.Duration

	// WatchTimeout is how long a watch lives that names no timeoutSeconds; 30
	// to 60 minutes, by the seed, if zero, as on a real server.
	WatchTimeout time.Duration

	// StreamingLists says what the server makes of sendInitialEvents.
	StreamingLists StreamingLists

	// ShardSelectors makes the server select by shardSelector, as one with the feature gate
	// ShardedListAndWatch does. Others overlook it. SetShardSelectors changes that.
	ShardSelectors bool

	// NoAggregatedDiscovery makes /api and /apis answer in the old form only.
	NoAggregatedDiscovery bool

	// NamespaceLifecycle creates the namespaces that every cluster has, and
	// refuses to create objects in namespaces that do not exist. Without it
	// any namespace will do.
	NamespaceLifecycle bool

	// Tokens maps bearer tokens to user names. Where it is set, an unknown
	// token is refused with 401 and a request without a token comes from
	// system:anonymous. Where it is nil, every request comes from "admin".
	Tokens map[string]string

	// Authorize is asked about each request, if set; see Authorizer.
	Authorize Authorizer

	// Resources are served in addition to Builtin.
	Resources []Resource

	// Load, if set, answers the lists and watches of its resource instead of
	// the store.
	Load *Load

	// Logger is told of what the server cannot tell its clients, such as a
	// refused TLS handshake. Nil is silent.
	Logger *slog.Logger
}

// StreamingLists is how far a server supports sendInitialEvents (KEP-3157).
type StreamingLists int

const (
	// StreamingListsOn serves streaming lists.
	StreamingListsOn StreamingLists = iota

	// StreamingListsRefused answers 422, as a server that knows the option
	// but has the feature switched off.
	StreamingListsRefused

	// StreamingListsIgnored overlooks the option, as a server that is older
	// than the feature: a plain watch, without an initial-events-end bookmark.
	StreamingListsIgnored
)

func (o *Options) complete() {
	o.FirstRV = cmp.Or(o.FirstRV, 100)
	o.History = cmp.Or(o.History, 10_000)
	o.BookmarkPeriod = cmp.Or(o.BookmarkPeriod, time.Minute)
	o.FreshnessWait = cmp.Or(o.FreshnessWait, 3*time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

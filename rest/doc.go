// Package rest talks to a Kubernetes API server: it lists and watches, reads
// and writes objects, with the Go type as a type parameter.
//
// # Usage
//
//	cfg, err := config.Load()
//	client, err := rest.NewClient(cfg, scheme)
//	pods := rest.ResourceFor[*corev1.Pod](client)
//
//	pod, err := pods.Get(ctx, object.Key{Namespace: "x", Name: "y"}, metav1.GetOptions{})
//
//	list := pods.Namespace("x").List(ctx, metav1.ListOptions{Limit: 500})
//	for pod, err := range list.Items { ... }
//	version := list.Meta.ResourceVersion
//
//	events, err := pods.Watch(ctx, metav1.ListOptions{ResourceVersion: version})
//	for ev, err := range events { ... }
//
// ResourceForKind takes a kind instead of a type: for unstructured objects, for
// metadata alone, and for object.Object. ResourceForMapping takes a known place and
// discovers nothing. SubresourceFor is for subresources with a body of their own,
// such as scale and eviction, and Resource.Stream for those without an object, such as log.
//
// # Guarantees
//
//   - Bodies are read as they come. Of a list, however long, one item that was not
//     yielded is in memory.
//   - A list that was cut is an error, never a shorter list (L18).
//   - An answer that is not a success is apimachinery's *errors.StatusError, whether
//     the API server or a proxy sent it. source.RetryAfter tells when to come back.
//   - List and Watch are sent once: their caller judges what went wrong, and has a
//     back-off (L19). Other calls are sent again where the server asks
//     for it with a Retry-After, at most ten times within 30 seconds: after 429,
//     when it has not begun with them, and after 5xx if doing it twice does no harm. A
//     Get is also sent again, once, if its connection breaks.
//   - Every request is bounded in time: its sending, once there is a connection, and then
//     the head of its answer by Config.Timeout each, the body of a single object by a
//     minute, discovery by half a minute. Only the body of a list or a watch may last;
//     what limits it is the caller's context.
//   - Objects that are sent are not changed: they may come from a cache (L16).
//   - The rate of requests is not limited; priority and fairness in the server
//     does that.
//   - No credential and no part of an object goes to the log or into an error.
//
// Built-in types are asked for in protobuf, all others in JSON, and with
// config.Config.CBOR in CBOR before either. If a server refuses that for a resource,
// the client speaks plain JSON from then on.
//
// # Concurrency
//
// Client and Resource may be used from many goroutines. A list and the events
// of a watch belong to one. The package starts no goroutine that outlives the
// call, but for those of net/http's connections and one for each exec plugin at work.
//
// # Failure
//
// An error begins with the verb and the resource: "list deployments.apps in
// namespace x: ...", unless it is the server's own text. errors.As finds a
// *source.ResolveError if the kind is not known or not served, and a *wire.Error if
// the answer could not be decoded. Apimachinery's predicates, such as
// apierrors.IsForbidden, apply to whatever the server said.
//
// Where nothing came for too long, errors.As finds a *source.StuckError, which says
// what was waited for: a connection, the TLS handshake, an exec plugin, the answer.
//
// # Debugging
//
// A source.Progress in the context of a call tells what it waits for now.
//
// config.Config.Logger gets a line per request at level debug, with the verb, the
// path, the status and the time until the header of the answer came, and each
// warning of the server once at level warn. Headers and queries are not logged.
package rest

// Package rest is a client for the Kubernetes API server. It lists, watches, reads and writes objects whose
// Go type is given by a type parameter.
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
// To use unstructured objects, only metadata, or object.Object, pass the kind to [ResourceForKind]. If you
// already know the location, use [ResourceForMapping], which does not need discovery. [SubresourceFor] is
// for subresources with a different body type, such as scale and eviction, and [Resource.Stream] is for
// subresources that are not objects, such as log.
//
// # Guarantees
//
//   - Bodies are decoded as they arrive. However long a list is, at most one item that has not been yielded
//     is in memory.
//   - A truncated list is an error, never a shorter list (L18).
//   - An unsuccessful response becomes apimachinery's *errors.StatusError, whether the
//     API server or a proxy sent it. source.RetryAfter returns when to
//     retry.
//   - List and Watch are not retried, because their caller decides how to handle a failure and backs off
//     (L19). Other calls are retried if the server sends a Retry-After: after 429, which means that the server
//     has not started on the request, and after 5xx if sending the request twice is harmless. The client
//     waits as long as the server asks, but at least 100 ms, plus up to a quarter. After ten attempts, or
//     if the waits would exceed 30 seconds in total, the call fails at once with the last response's
//     *errors.StatusError, so apierrors.IsTooManyRequests and source.RetryAfter work. If ctx is done during a
//     wait, the error wraps ctx's cause and that *errors.StatusError.
//   - A Get or Stream is also retried once if its connection breaks before the response. Writes are not,
//     because the server may have applied them.
//   - Every request has time limits: Config.Timeout for sending it, once there is a
//     connection, and again for the response's header; one minute for the body of a
//     single object; half a minute for discovery. The bodies of lists and watches may
//     take any time; only the caller's context limits them.
//   - Objects passed in are not modified, because they may come from a cache (L16).
//   - The client does not limit its request rate; the server does that with priority and fairness.
//   - Neither credentials nor parts of objects appear in logs and errors.
//
// Built-in types are requested in protobuf and all others in JSON; if config.Config.CBOR is set, the client
// prefers CBOR to both. If a server rejects these encodings for a resource, the client uses plain JSON for
// it from then on.
//
// # Concurrency
//
// Client and Resource are safe for concurrent use. A list's items and a watch's events must be consumed by
// a single goroutine. The only goroutines that outlive a call are net/http's connection goroutines, one per
// running exec plugin, and one while a credential file is being read.
//
// # Failure
//
// Errors start with the verb and the resource, as in "list deployments.apps in namespace x: ...", unless
// the text is the server's own. errors.As finds a *source.ResolveError if the kind is unknown or not
// served, and a *wire.Error if the response could not be decoded. Apimachinery's predicates, such as
// apierrors.IsForbidden, work on the server's errors.
//
// If a request timed out, errors.As finds a *source.StuckError, which identifies the step that took too long:
// the connection, the TLS handshake, an exec plugin or the response.
//
// # Debugging
//
// If a call's context contains a source.Progress, it reports which step the call is waiting for.
//
// The client logs one line per request to config.Config.Logger at debug level, with the verb, the path, the
// status and the time until the response header arrived. It also logs each distinct server warning once, at
// warn level. Headers and queries are not logged.
package rest

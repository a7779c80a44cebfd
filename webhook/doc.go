// Package webhook implements API server webhooks: validating and mutating admission, and conversion of
// custom resources between versions.
//
// # Usage
//
//	hooks, err := webhook.New(webhook.Options{CertDir: "/certs"})
//	hooks.Handle("/validate-pod", webhook.Validate(func(ctx context.Context, r *webhook.Request[*corev1.Pod]) error {
//		if r.Object.Labels["owner"] == "" {
//			return errors.New("every pod needs a label owner")
//		}
//		return nil
//	}))
//	hooks.Handle("/mutate-pod", webhook.Mutate(func(ctx context.Context, r *webhook.Request[*corev1.Pod]) error {
//		r.Object.Spec.EnableServiceLinks = new(false)
//		return nil
//	}))
//	err = m.Add(hooks) // a *manager.Manager
//
// If the program has a manager, manager.WebhookFor does this in one line, with paths derived from the
// kind.
//
// Each handler accepts the kinds registered for its Go type in k8s.io/api, or the kinds you pass:
//
//	hooks.Handle("/validate-cache-example-com-v1-memcached", webhook.Validate(check, v1.GroupVersion.WithKind("Memcached")))
//
// # Guarantees
//
// A function is called only with objects of its handler's kinds. A review is rejected if its
// request.kind is a different kind, or if an object in it, old or new, is not of that kind; the message
// includes both kinds. So neither a wrong path nor a rule such as pods/*, which also matches Evictions, can
// admit an object unchecked. A subresource such as pods/eviction needs a handler for its own kind:
// Validate[*policyv1.Eviction]. The kind in a review is the one that the webhook's rules ask for; the API
// server converts objects written in other versions. Likewise, a conversion rejects objects of other kinds,
// and results that do not have the requested kind and version.
//
// A mutation contains only the changes made by the function, so fields unknown to the Go type are
// preserved. In arrays, such fields stay with their element even if the function moves it. A changed
// element is recognized by its name (mountPath, devicePath, name, key, type or ip). An element without a
// name is matched by index, provided that the array's length is unchanged. Elements without a match are
// treated as new.
//
// If the function returns an error, the request is rejected with its text; an *errors.StatusError from
// apimachinery is sent unchanged. If the function panics or calls runtime.Goexit, the request is also
// rejected, and the stack is logged. The response is then a review that is not allowed, so a
// failurePolicy of Ignore does not admit the object. The same happens if a method of the error panics,
// for example because the error is a nil pointer. If one of a conversion's functions fails,
// panics or calls runtime.Goexit, the whole review fails, and none of its objects are converted.
//
// Reviews cannot exhaust the process's memory. At any time, a server accepts at most 64 MiB of admission
// reviews and 256 MiB of conversion reviews, plus 64 MiB of objects being converted and 256 MiB of
// results. A review's size is the number of bytes received or the estimated size of its objects and user
// info as Go values, whichever is larger. For a type with its own UnmarshalJSON method, the size of the
// JSON is used.
//
// # Concurrency
//
// Functions are called concurrently, each call in a separate goroutine. A server limits the total size of
// the reviews in progress (see Guarantees), but not the number of calls; a review beyond that limit gets a
// status of 503. A function's context is canceled when the API server times out.
//
// # Failure
//
// A request that is not a review gets a 400 response. A review gets a 413 if it is too large (16 MiB, or
// 256 MiB for a conversion), if its objects and user info need more than 64 MiB when decoded (for
// example, user info of more than 4 MiB), or if it contains more than 1,048,576 objects. It gets a 503 if
// it would exceed the limits above. In these cases, the API server applies the failurePolicy. A review of
// the wrong kind is rejected with code 400, regardless of the failurePolicy. A conversion fails if an
// object needs more than 64 MiB when decoded, or if the results would exceed the limits.
//
// # Debugging
//
// Options.Logger logs panics, the first review of the wrong kind at each path as a warning, and every
// rejected request at debug level. Options.Metrics counts every request. Server.Check fails while the
// server is not serving or its certificate has expired; a manager's /readyz includes it.
package webhook

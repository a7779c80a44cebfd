// Package webhook implements webhooks of the API server: validating and mutating admission of objects,
// and conversion of custom resources between versions.
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
// Each handler accepts the kinds that k8s.io/api has for its Go type, or the kinds you name:
//
//	hooks.Handle("/validate-cache-example-com-v1-memcached", webhook.Validate(check, v1.GroupVersion.WithKind("Memcached")))
//
// # Guarantees
//
// A function is called only with objects of its handler's kinds. A review is refused if its request.kind
// is another kind, or if an object in it, old or new, does not have that kind; the message names both
// kinds. So a wrong path, or a rule such as pods/* that also sends Evictions, admits nothing. A
// subresource such as pods/eviction needs a handler of its own kind: Validate[*policyv1.Eviction]. The
// kind in a review is the kind that the webhook's rules ask for; the API server converts objects written
// in another version. Likewise, a conversion refuses objects of other kinds, and results that do not
// have the requested kind and version.
//
// A mutation contains only the changes that the function made, so fields that our Go type does not know
// are kept. In an array such fields stay with their element, even if the function moves it. A changed
// element is matched by its name (mountPath, devicePath, name, key, type or ip). If it has no name, it
// is matched by its index, provided that the array has the same length as before. Elements without a
// match are new.
//
// If the function returns an error, the request is refused with its text; an *errors.StatusError of
// apimachinery is sent unchanged. If the function panics or calls runtime.Goexit, the request is refused
// too, and the stack is logged. The response is then a review that is not allowed, so a failurePolicy of
// Ignore does not admit the object. The same happens if a method of the error panics, for example
// because it is a nil pointer.
//
// Reviews cannot exhaust the process's memory. A server holds at most 64 MiB of admission reviews and
// 256 MiB of conversion reviews, plus 64 MiB of objects being converted and 256 MiB of results. The size
// of a review is the number of bytes received or the estimated size of its objects and user as Go
// values, whichever is larger. For a type with its own UnmarshalJSON, the size of its text counts.
//
// # Concurrency
//
// Functions are called concurrently, each call in its own goroutine. Their context ends when the API
// server gives up.
//
// # Failure
//
// A request that is not a review gets status 400. A review gets 413 if it is too large (16 MiB, or 256
// MiB for a conversion), if its objects and user need more than 64 MiB when decoded (for example a user
// of more than 4 MiB), or if it has more than 1,048,576 objects. It gets 503 if the budget has no room
// for it. In these cases the API server applies the failurePolicy. A review of a wrong kind gets a
// response that is not allowed, with code 400, regardless of the failurePolicy. A conversion fails if an
// object needs more than 64 MiB when decoded, or if the budget has no room for the result.
//
// # Debugging
//
// Options.Logger logs panics, the first review of a wrong kind at each path as a warning, and every
// refusal at debug level. Options.Metrics counts every request. Server.Check fails while the server
// does not serve or its certificate has expired; /readyz of a manager includes it.
package webhook

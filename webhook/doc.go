// Package webhook answers the API server's questions about objects: may they be written
// (validating and mutating admission), and what do they look like in another version
// (conversion of custom resources).
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
// In a program with a manager, manager.WebhookFor does this in one line, at paths derived from the kind.
//
// Each handler is for the kinds of its Go type in k8s.io/api, or for those that you name:
//
//	hooks.Handle("/validate-cache-example-com-v1-memcached", webhook.Validate(check, v1.GroupVersion.WithKind("Memcached")))
//
// # Guarantees
//
// A function is called only with objects of its handler's kinds. A review is refused, with
// a message that names both kinds, if its request.kind is another one, or if an object in it,
// old or new, does not name that kind as its own. So a wrong path, or a rule such as pods/*,
// which sends Evictions too, lets nothing in. A handler of a subresource such as pods/eviction
// is one for its kind: Validate[*policyv1.Eviction]. The kind in a review is the one that
// the webhook's rules ask for; the API server converts what a client wrote in another version.
// A conversion refuses objects of other kinds in the same way, and results that are not of
// the kind and version that were asked for.
//
// A mutation says only what the function changed: fields that our Go type does
// not know are kept. In an array they stay with their element, wherever the function
// has put it. An element that the function has changed is known again by its name
// (mountPath, devicePath, name, key, type or ip), and one without a name by its place,
// where the array is as long as before. What is not known again is a new element.
//
// An error of the function refuses the request, with its text;
// an *errors.StatusError of apimachinery is sent as it is. A panic or a
// runtime.Goexit refuses too, and is logged with its stack: the answer is a review
// that is not allowed, so that a failurePolicy of Ignore does not let the object in.
// So does an error whose methods panic, as those of a nil pointer do.
//
// Reviews cannot fill the memory: of admission reviews a server holds 64 MiB at a time, of
// conversion reviews 256 MiB, 64 MiB of the objects that it converts, and 256 MiB of what they
// have become. They are counted as they arrive, or as about what their objects and users become
// in your Go types, where that is more. Of a type with an UnmarshalJSON of its own the text is
// counted.
//
// # Concurrency
//
// Functions are called by several goroutines at once, each in one of its own. The
// context ends when the API server gives up.
//
// # Failure
//
// What is not a review is answered with 400. A review that is too large (16 MiB,
// for a conversion 256 MiB) is answered with 413, and so is one whose objects and user become
// more than 64 MiB, such as a user of more than 4 MiB, or with more than 1,048,576 objects. One
// for which there is no room is answered with 503. The API server then does what the
// failurePolicy says. A review of a wrong kind is answered with one that is not allowed, of
// status 400, whatever the failurePolicy is. A conversion of an object that becomes more than
// 64 MiB fails, and so does one for whose result there is no room.
//
// # Debugging
//
// Options.Logger hears of panics, and at level debug of every refusal. The first review of
// a wrong kind at each path is a warning.
// Options.Metrics hears of every request. Server.Check fails where the server does
// not serve or its certificate has expired; /readyz of a manager shows it.
package webhook

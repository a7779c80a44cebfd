// Package webhook answers the API server's questions about objects: whether they
// may be written (validating and mutating admission), and how they look in
// another version (conversion of custom resources).
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
// # Guarantees
//
// A mutation says only what the function changed: fields that our Go type does
// not know are kept. An error of the function refuses the request, with its text;
// an *errors.StatusError of apimachinery is sent as it is. A panic refuses, and
// is logged with its stack.
//
// # Concurrency
//
// Functions are called by several goroutines at once. The context ends when the
// API server gives up.
//
// # Failure
//
// What is not a review, or too large, is answered with 400 or 413.
//
// # Debugging
//
// Options.Logger hears of panics, and at level debug of every refusal.
// Options.Metrics hears of every request. Server.Check says whether the server
// serves, and with a certificate that has not expired; /readyz of a manager tells.
package webhook

/*
Package events records Kubernetes events: messages about an object that users read with
kubectl describe.

# Usage

	recorder := events.New(client, "example.com/memcached", events.Options{Logger: logger})
	go recorder.Run(ctx) // a manager does this: recorder := m.Events("example.com/memcached")
	recorder.Recordf(site, corev1.EventTypeWarning, "ImagePullFailed", "Pull", "image %s: %v", image, err)

# Guarantees

Recording never blocks, never fails and never calls the server. Run sends the events, one
request at a time. Repetitions are counted in a single event. A recorder keeps at most
Options.Limit events that are waiting to be sent, and the same number of sent events that may
repeat; it drops, counts and logs any others.

# Concurrency

All methods are safe for concurrent use. Only one Run may be active at a time.

# Failure

If the server is down, events wait for up to 10 minutes. An event that the server rejects
is dropped, counted in Status.Failed and logged.
*/
package events

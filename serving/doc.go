// Package serving runs HTTP servers for metrics, health checks, debugging and webhooks.
//
// # Usage
//
//	s, err := serving.New(serving.Options{Name: "metrics", Address: ":8443", Handler: h, TLS: &serving.TLS{}})
//	err = s.Listen() // reports early if the port is in use
//	err = s.Run(ctx)
//
// [Access] wraps a handler with the API server's authentication and authorization. [Local] protects handlers
// on the loopback interface from web pages in a local browser.
//
// # Guarantees
//
// Certificates are reloaded when their files change, without a restart. If the new certificate is unusable,
// the old one stays in use. When ctx is done or the listener fails, the server stops accepting connections.
// Run returns when the requests in progress have completed, or after Options.Drain.
//
// Clients cannot keep unused connections open. Headers must arrive within 10 s, or 90 s with HTTP/2 over TLS,
// and are limited to 64 KiB; a body must arrive within 30 s; a response must be read within two minutes; and
// an idle connection is closed after 90 s. The number of connections is not limited. Access limits both its
// memory use and the requests it makes on behalf of unknown callers.
//
// # Concurrency
//
// All methods are safe for concurrent use, except that only one Run may be active at a time. Run starts one
// goroutine, in addition to the ones net/http starts.
//
// # Failure
//
// New and Listen return errors that describe problems in the configuration and how to fix them.
//
// # Debugging
//
// Messages from net/http are logged to Options.Logger at level debug, since most of them are about
// clients that disconnected.
package serving

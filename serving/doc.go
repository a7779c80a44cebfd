// Package serving runs HTTP servers: for metrics, health, debugging and
// webhooks.
//
// # Usage
//
//	s, err := serving.New(serving.Options{Name: "metrics", Address: ":8443", Handler: h, TLS: &serving.TLS{}})
//	err = s.Listen() // so that a port that is taken is known at once
//	err = s.Run(ctx)
//
// Access puts the API server's authentication and authorization in front of a
// handler. Local keeps web pages of a browser on this machine out of what is served at the
// loopback interface.
//
// # Guarantees
//
// Certificates are read again when their files change, without a restart. If the
// new one cannot be used, the old one stays in use. When ctx is done or the listener
// fails, the server takes no new connection, and Run returns when the requests in
// progress have been answered, or after Options.Drain.
//
// No caller can hold a connection for nothing: headers must come within 10 s, or 90 s
// where TLS leads to HTTP/2, and have 64 KiB at most, a body must come within 30 s, an answer must be read within
// two minutes, and an idle connection is closed after 90 s. The number of
// connections is not limited. What Access remembers of callers, and what it asks
// the API server for strangers, is bounded.
//
// # Concurrency
//
// All methods may be called from any goroutine; Run once. Run owns one goroutine
// and those of net/http.
//
// # Failure
//
// New and Listen report what is wrong with the configuration and what to change.
//
// # Debugging
//
// What net/http has to say goes to Options.Logger at level debug, since most of
// it is about clients that broke off.
package serving

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
// handler.
//
// # Guarantees
//
// Certificates are read again when their files change, without a restart; one
// that cannot be used leaves the one before in use. When ctx is done no new
// connection is taken, and Run returns when the requests in progress have been
// answered, or after Options.Drain.
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

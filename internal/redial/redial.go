// Package redial marks requests that need a new connection, because the existing one may be dead. HTTP/2 sends
// all requests over one connection.
package redial

import "context"

type contextKey struct{}

// Mark returns a context for requests that use a new connection.
func Mark(ctx context.Context) context.Context { return context.WithValue(ctx, contextKey{}, true) }

// Marked reports whether ctx was marked by [Mark].
func Marked(ctx context.Context) bool { return ctx.Value(contextKey{}) != nil }

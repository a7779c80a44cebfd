// Package source defines how a reflector lists and watches objects. rest.Resource implements it for an API
// server. A program may supply its own source, and can then be built without package rest.
//
// A Request may ask for more than a simple source supports. Complete implements whatever parts a source's
// Description does not declare.
//
// The reflector decides what to do next based on the source's errors. Errors from an API server are
// apimachinery's *errors.StatusError. A *ResolveError means that the kind's endpoint is unknown. RetryAfter
// returns how long the server asked to wait.
package source

// Package source defines how a reflector lists and watches objects. rest.Resource implements it for an
// API server. A program may bring its own source, and can then be built without package rest.
//
// A Request asks for more than a small source may support. Complete implements the parts that, according
// to its Description, a source does not.
//
// The errors of a source tell the reflector what to do next. Errors from an API server are of
// apimachinery's type *errors.StatusError. A *ResolveError means that it is unknown where the kind is
// served. RetryAfter returns how long the server asked to wait.
package source

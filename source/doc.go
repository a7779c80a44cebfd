// Package source is what a reflector needs of the place that objects come from: to
// list them and to watch them. rest.Resource is such a source, of an API server; a
// program may bring its own and then builds without rest.
//
// ListerWatcher is all that must be there. Reuser, Sharer and Namespacer are what a
// source may offer besides; the informer uses them where they are.
//
// Errors of a source tell the reflector what to do next. Those of API servers are
// the *errors.StatusError of apimachinery. A *ResolveError says that it could not be
// told where the kind is served, and RetryAfter how long the server asked to wait.
package source

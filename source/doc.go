// Package source is what a reflector needs of the place that objects come from: to list
// them, to watch them, and to describe them. rest.Resource has such a source, for an API server. A
// program may bring its own, and then builds without rest.
//
// A Request has more in it than a small source cares for. Complete does the parts that a source, as its
// Description says, leaves undone.
//
// Errors of a source tell the reflector what to do next. Those of API servers are the
// *errors.StatusError of apimachinery. A *ResolveError says that nobody could tell
// where the kind is served. RetryAfter says how long the server asked to wait.
package source

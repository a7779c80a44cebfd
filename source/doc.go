// Package source is what a reflector needs of the place that objects come from: to list
// them and to watch them. rest.Resource is such a source, for an API server. A program
// may bring its own, and then builds without rest.
//
// A source must be a ListerWatcher. It may also be a Reuser, a Sharer, a Packer, a Namespacer,
// a Chooser or a Selector; the informer uses what it offers.
//
// Errors of a source tell the reflector what to do next. Those of API servers are the
// *errors.StatusError of apimachinery. A *ResolveError says that nobody could tell
// where the kind is served. RetryAfter says how long the server asked to wait.
package source

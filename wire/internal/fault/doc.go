// Package fault holds the reasons for which a body is refused, and makes errors that
// quote nothing of an object. Package wire exports the reasons.
//
// ErrUnusual alone is no reason: it sends an object to the reference.
package fault

// Package get is the verb get: what caches hold, in kubectl's forms, once or as it changes.
package get

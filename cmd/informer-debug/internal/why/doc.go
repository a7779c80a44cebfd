// Package why is the verb why: why an object has not been reconciled, or so late, as the process
// tells it that has the object.
package why

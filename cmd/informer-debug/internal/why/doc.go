// Package why is the verb why: why an object has not been reconciled, or so late, as the process
// tells it that has the object; how a cache has it beside the server; and what became of it in a
// recording.
package why

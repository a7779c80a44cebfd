package controller

import "github.com/millrace-dev/millrace/object"

// StatusPatch is what PatchStatus sends.
func StatusPatch[T object.Object](o T, change func(T) error) ([]byte, error) {
	return statusPatch(o, onObjects(change), false)
}

// MostNotes is how many of those are kept whose patience is over.
const MostNotes = mostNotes

// Notes is how many requests of a running controller have a note of a write.
func Notes(c *Controller) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := &c.session.parking
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(len(p.notes), len(p.order))
}

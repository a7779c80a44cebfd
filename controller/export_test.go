package controller

import "github.com/millrace-dev/millrace/object"

// StatusPatch returns the patch that PatchStatus sends.
func StatusPatch[T object.Object](o T, change func(T) error) ([]byte, error) {
	return statusPatch(o, onObjects(change), false)
}

// ChangeConditions is how SetCondition changes an object.
var ChangeConditions = changeConditions

// Notes is how many requests of a running controller have a note of a write.
func Notes(c *Controller) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session.barrier.Notes()
}

// Package trusted marks Millrace's own hooks. A user's hook may panic or call runtime.Goexit, so each call of it
// runs in a new goroutine. For a hook that is called for every object, that is expensive.
package trusted

// Hook marks the types that embed it: hooks that neither panic nor call runtime.Goexit, and do not block.
type Hook struct{}

func (Hook) trusted() {}

// Is reports whether a hook is marked.
func Is(hook any) bool {
	_, marked := hook.(interface{ trusted() })
	return marked
}

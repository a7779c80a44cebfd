package object

import (
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// CompareRV orders two resource versions of one resource: negative when a is
// older than b, zero when they are equal, positive when a is newer. It fails
// where either is not a positive decimal integer, which a server that keeps
// KEP-5504 never sends for a stored object.
func CompareRV(a, b string) (int, error) {
	return resourceversion.CompareResourceVersion(a, b)
}

// ReachedRV reports whether a cache at have holds every change up to want.
// Equal versions are reached even where they cannot be ordered; versions that
// differ and cannot be ordered are not.
func ReachedRV(have, want string) bool {
	if have == want {
		return true
	}
	order, err := CompareRV(have, want)
	return err == nil && order >= 0
}

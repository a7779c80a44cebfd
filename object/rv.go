package object

import (
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// CompareRV orders two resource versions of one resource: negative if a is older than
// b, zero if they are equal, positive if a is newer. It fails if either is not a
// positive decimal integer, which a server that keeps KEP-5504 never sends for a
// stored object.
func CompareRV(a, b string) (int, error) {
	return resourceversion.CompareResourceVersion(a, b)
}

// ReachedRV reports whether a cache at have holds every change up to want.
// Equal versions are reached even if they cannot be ordered; different versions that
// cannot be ordered are not.
func ReachedRV(have, want string) bool {
	if have == want {
		return true
	}
	order, err := CompareRV(have, want)
	return err == nil && order >= 0
}

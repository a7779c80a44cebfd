//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package snapshot

import (
	"errors"
	"fmt"
	"runtime"
)

// lock fails: without a lock, two processes would take turns at one file.
func lock(string) (unlock func(), err error) {
	return nil, fmt.Errorf("lock: not written for %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

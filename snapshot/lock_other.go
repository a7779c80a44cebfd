//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package snapshot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
)

// wary is empty on this system; see lock_unix.go.
const wary = 0

// own always succeeds because this system does not report file owners.
func own(fs.FileInfo) error { return nil }

// lock always fails: without a lock, two processes would overwrite each other's files.
func lock(string) (*os.File, error) {
	return nil, fmt.Errorf("lock: not implemented on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

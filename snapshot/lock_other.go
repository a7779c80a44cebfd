//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package snapshot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
)

// wary would have nobody wait who opens a pipe.
const wary = 0

// own passes: the owner of a file is not known here.
func own(fs.FileInfo) error { return nil }

// lock fails: without a lock, two processes would take turns at one file.
func lock(string) (*os.File, error) {
	return nil, fmt.Errorf("lock: not written for %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

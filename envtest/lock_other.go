//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package envtest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
)

// lock always fails. kube-apiserver does not support these systems either.
func lock(context.Context, string) (unlock func(), err error) {
	return nil, fmt.Errorf("the real API server is not supported on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

// tryLock always fails, like lock.
func tryLock(name string, _ int) (unlock func(), err error) { return lock(context.Background(), name) }

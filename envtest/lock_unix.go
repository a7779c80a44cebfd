//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package envtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// lockPoll is the delay between two attempts. Polling is necessary because a blocking flock cannot
// be canceled by the context.
const lockPoll = 200 * time.Millisecond

// lock takes an exclusive interprocess lock on the named file, waiting until ctx is done. The operating
// system releases the lock when the process dies.
func lock(ctx context.Context, name string) (unlock func(), err error) {
	for waiting := false; ; waiting = true {
		unlock, err := tryLock(name, os.O_CREATE)
		if unlock != nil || err != nil {
			return unlock, err
		}
		if !waiting {
			fmt.Fprintln(os.Stderr, "envtest: waiting for another build of kube-apiserver")
		}
		select {
		case <-time.After(lockPoll):
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for lock %s: %w", name, context.Cause(ctx))
		}
	}
}

// tryLock takes the lock, or returns nil if another process holds it. It creates the file if create is
// os.O_CREATE. It does not follow symbolic links, which other users could place in the directory for
// temporary files.
func tryLock(name string, create int) (unlock func(), err error) {
	f, err := os.OpenFile(name, create|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return func() { f.Close() }, nil
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return nil, f.Close()
		default:
			return nil, errors.Join(fmt.Errorf("lock %s: %w", name, err), f.Close())
		}
	}
}

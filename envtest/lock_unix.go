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

// lockPoll is the pause between two attempts. A blocking flock would not end
// with the context.
const lockPoll = 200 * time.Millisecond

// lock takes an exclusive lock between processes on the named file. The system
// releases it when the process dies.
func lock(ctx context.Context, name string) (unlock func(), err error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for waiting := false; ; waiting = true {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", name, err), f.Close())
		}
		if !waiting {
			fmt.Fprintln(os.Stderr, "envtest: waiting for another build of kube-apiserver")
		}
		select {
		case <-time.After(lockPoll):
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("wait for the lock %s: %w", name, context.Cause(ctx)), f.Close())
		}
	}
}

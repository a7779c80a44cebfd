//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package snapshot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// wary contains flags that reject symbolic links and make opening a pipe non-blocking.
const wary = syscall.O_NONBLOCK | syscall.O_NOFOLLOW

// own returns an error if the file is world-writable or owned by a user other than the current one and
// root. Group write access is allowed because volumes with an fsGroup need it.
func own(info fs.FileInfo) error {
	is, ok := info.Sys().(*syscall.Stat_t)
	if ok && (is.Uid != 0 && int(is.Uid) != os.Geteuid() || info.Mode().Perm()&0o002 != 0) {
		return ErrNotOwn
	}
	return nil
}

// lock acquires an exclusive inter-process lock on a file, or fails immediately. The system releases it
// when the file is closed or the process exits.
func lock(name string) (*os.File, error) {
	f, err := openRegular(name, os.O_CREATE|os.O_RDWR)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	for errors.Is(err, syscall.EINTR) {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, ErrLocked
		}
		return nil, &os.PathError{Op: "lock", Path: name, Err: err}
	}
	return f, nil
}

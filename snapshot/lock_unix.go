//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package snapshot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// wary makes opening a pipe return immediately, and rejects links.
const wary = syscall.O_NONBLOCK | syscall.O_NOFOLLOW

// own returns an error if every user, or any user other than this one and root, may have written a file.
// The group is allowed, because it owns the files of a volume with an fsGroup.
func own(info fs.FileInfo) error {
	is, ok := info.Sys().(*syscall.Stat_t)
	if ok && (is.Uid != 0 && int(is.Uid) != os.Geteuid() || info.Mode().Perm()&0o002 != 0) {
		return ErrNotOwn
	}
	return nil
}

// lock takes an exclusive lock on a file between processes, or fails immediately. The system
// releases it when the file is closed or the process ends.
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

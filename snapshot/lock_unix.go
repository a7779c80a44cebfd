//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package snapshot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// wary has nobody wait who opens a pipe, and follows no link.
const wary = syscall.O_NONBLOCK | syscall.O_NOFOLLOW

// own fails if anyone but this user, root and the group may have written a file. The group has the
// files of a volume with an fsGroup.
func own(info fs.FileInfo) error {
	is, ok := info.Sys().(*syscall.Stat_t)
	if ok && (is.Uid != 0 && int(is.Uid) != os.Geteuid() || info.Mode().Perm()&0o002 != 0) {
		return ErrNotOwn
	}
	return nil
}

// lock takes an exclusive lock between processes on a file, at once or not at all. The system
// releases it when the file is closed, or the process dies.
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

package snapshot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// openRegular opens a regular file. It rejects everything else: opening a pipe may block forever,
// opening a device may have side effects, and a link may point outside the directory.
func openRegular(path string, flags int) (*os.File, error) {
	switch info, err := os.Lstat(path); {
	case err == nil:
		if err := regular(info); err != nil {
			return nil, err
		}
	case flags&os.O_CREATE == 0 || !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	f, err := os.OpenFile(path, flags|wary, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat() // the file may have been replaced since Lstat
	if err == nil {
		err = regular(info)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// regular returns an error if info does not describe a regular file.
func regular(info fs.FileInfo) error {
	kind := "something else"
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		kind = "a directory"
	case mode&fs.ModeSymlink != 0:
		kind = "a symbolic link"
	case mode&fs.ModeNamedPipe != 0:
		kind = "a named pipe"
	case mode&fs.ModeSocket != 0:
		kind = "a socket"
	case mode&fs.ModeDevice != 0:
		kind = "a device"
	}
	return fmt.Errorf("%w but %s: remove it", ErrNotFile, kind)
}

package recording

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// makeWay moves or removes existing files to make way for a new recording at path.
func makeWay(path string) error {
	if err := keepPrevious(path); err != nil {
		return err
	}
	return clearPart(path + partSuffix)
}

// keepPrevious renames an existing recording, or removes it if it is worthless.
func keepPrevious(path string) error {
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSymlink != 0 {
		return errors.New("the path is a symbolic link, which would be replaced: use the path it points to")
	}
	switch there, err := whatIs(path); {
	case err != nil:
		return err
	case there == nothing:
		return nil
	case there == worthless:
		return withoutPath(os.Remove(path))
	}
	previous := path + ".previous"
	if _, err := whatIs(previous); err != nil {
		return fmt.Errorf("%s: %w", previous, err)
	}
	return withoutPath(os.Rename(path, previous))
}

// partSuffix is the suffix of the file that will replace a recording.
const partSuffix = ".part"

// clearPart removes a file with that suffix left behind by a crash.
func clearPart(path string) error {
	switch there, err := whatIs(path); {
	case err != nil:
		return fmt.Errorf("%s: %w", path, err)
	case there == nothing:
		return nil
	}
	return withoutPath(os.Remove(path))
}

// worth rates an existing file.
type worth int

const (
	nothing   worth = iota // there is no file
	worthless              // an empty file, or a recording without requests
	precious
)

// whatIs rates the file at path. It fails if the file is not a recording.
func whatIs(path string) (worth, error) {
	f, err := openFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nothing, nil
	}
	if err != nil {
		return nothing, err
	}
	defer f.Close()
	begins := make([]byte, len(anyMagic))
	n, err := io.ReadFull(f, begins)
	switch {
	case err != nil && atEnd(err) && anyMagic[:n] == string(begins[:n]): // left by a crash
		return worthless, nil
	case string(begins) != anyMagic:
		return nothing, errors.New("the file exists and is not a recording: choose another name, or remove it")
	}
	return worthOf(f), nil
}

// worthOf looks for a request in a recording. A recording that was not closed is assumed to contain
// one, since it may still be written to.
func worthOf(in io.ReaderAt) worth {
	const most = 4 << 10 // covers everything before the first request
	f, err := newFile("", in, most)
	if err != nil || f.Damage != nil || len(f.Requests) > 0 {
		return precious
	}
	return worthless
}

package recording

import (
	"errors"
	"fmt"
)

// What may end a recording, or be wrong with a file.
var (
	// ErrDamaged: the file is none that this package wrote, or was changed.
	ErrDamaged = errors.New("the file is damaged")
	// ErrCutOff: the file ends in the middle, as after a crash. What comes before is whole.
	ErrCutOff = errors.New("the file is cut off")
	// ErrVersion: another version of this package wrote the file.
	ErrVersion = errors.New("the file is of another version")
	// ErrBehind: what is written came faster than the disk took it.
	ErrBehind = errors.New("the disk is too slow for what is recorded")
	// ErrTaken: another recorder has put its file in the place of this one's.
	ErrTaken = errors.New("another recorder writes to the same path: give each its own")
	// ErrClosed: the file or the replay is closed.
	ErrClosed = errors.New("closed")
)

var errNotCreated = errors.New("the recorder records nothing: make it with Create")

// Error says what could not be done with which file, and where in it.
type Error struct {
	Path   string
	Offset int64 // of the bytes that are wrong; -1 where it is not about bytes
	Err    error
}

// Error names the path, the offset and the reason.
func (e *Error) Error() string {
	if e.Offset < 0 {
		return fmt.Sprintf("recording %s: %v", e.Path, e.Err)
	}
	return fmt.Sprintf("recording %s: at byte %d: %v", e.Path, e.Offset, e.Err)
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

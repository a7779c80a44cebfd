package snapshot

import "errors"

// What may be wrong with a snapshot.
var (
	// ErrDamaged: the file was cut off or changed, or is none that this package wrote.
	ErrDamaged = errors.New("the file is damaged")
	// ErrNotFile: what is there is no regular file, but a directory, a link, a pipe or a device.
	ErrNotFile = errors.New("what is there is no regular file and has to be removed")
	// ErrForeign: the file is of other objects than those that are wanted.
	ErrForeign = errors.New("the file is of something else")
	// ErrOld: the file is older than Options.MaxAge.
	ErrOld = errors.New("the file is too old")
	// ErrNotOwn: the file belongs to another user, or every user may write it, so that its objects
	// may be anyone's.
	ErrNotOwn = errors.New("the file belongs to another user, or every user may write it")
	// ErrLocked: another process, or another Directory of this one, writes into the directory.
	ErrLocked = errors.New("another process, or another Directory of this one, writes into this directory: give each its own")
)

// Error says what could not be done with which file or directory.
type Error struct {
	Path string
	Err  error
}

// Error names the path and the reason.
func (e *Error) Error() string { return "snapshot " + e.Path + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

package wire

import "github.com/millrace-dev/millrace/object"

type Error struct {
	Key object.Key
	Err error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

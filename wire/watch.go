package wire

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire/internal/crew"
	"github.com/millrace-dev/millrace/wire/internal/frame"
)

// frames is the state of reading one watch stream.
type frames struct {
	*crew.Crew[Event[object.Head]]
	next func() (frame.Item, error) // finds a frame; io.EOF where the stream ends before it
	fail func(where string, raw []byte, err error) *Error
}

// read reads the stream to its end.
func (f *frames) read(yield func(Event[object.Head], error) bool) {
	defer f.Close()
	err := f.find()
	if earlier := f.Flush(); earlier != nil {
		err = earlier
	}
	if err != io.EOF && err != crew.ErrStopped {
		yield(Event[object.Head]{}, err)
	}
}

// find finds frames until there is none.
func (f *frames) find() error {
	for {
		found, err := f.next()
		switch {
		case err == nil:
			f.Found(found)
		case err == io.EOF || err == f.Failed():
			return err
		case frame.IsTransport(err):
			return fmt.Errorf("read %s: %w", whereFrame(f.Count()), err)
		default:
			return f.fail(whereFrame(f.Count()), nil, err)
		}
	}
}

// pass makes the event one of an object that is not wanted.
func (e *Event[T]) pass(v object.Version) {
	v = v.Clone()
	e.Passed = &v
}

func whereFrame(number int) string { return "frame " + strconv.Itoa(number) }

// inFrame says in which frame a decoder failed.
func inFrame(number int, err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		e.Where = whereFrame(number)
	}
	return err
}

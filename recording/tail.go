package recording

import (
	"errors"
	"io"
	"os"
)

// ErrShortened: the file that is read has left out its oldest requests, so that what follows
// stands elsewhere.
var ErrShortened = errors.New("the recording has left out its oldest requests")

// Tail reads the file of a recorder while it is being written. Make it with Recorder.Tail. It
// is for one goroutine, has none of its own, and holds nothing. Neither who is recorded nor
// the recording waits for who reads slowly.
type Tail struct {
	recorder *Recorder
	shrunk   int // how often the file had become smaller when the tail began
	offset   int64
}

// Tail returns a tail that begins where the file does.
func (r *Recorder) Tail() *Tail {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &Tail{recorder: r, shrunk: r.shrunk}
}

// Next reads what comes next into p, and returns how much that is: nothing as long as there
// is no more. The end may be within a block. It fails with io.EOF when the recording has ended,
// whether all was read or not, and with an *Error that wraps ErrShortened, or says why the file
// cannot be read.
func (t *Tail) Next(p []byte) (int, error) {
	r := t.recorder
	if r.ended == nil {
		return 0, &Error{r.path, -1, errNotCreated}
	}
	r.reading.Lock()
	defer r.reading.Unlock()
	r.mu.Lock()
	size, shrunk := r.status.Size, r.shrunk
	r.mu.Unlock()
	switch {
	case r.ring.closed:
		return 0, io.EOF
	case shrunk != t.shrunk:
		return 0, &Error{r.path, t.offset, ErrShortened}
	}
	n, err := r.ring.file.ReadAt(p[:min(int64(len(p)), max(0, size-t.offset))], t.offset)
	t.offset += int64(n)
	if err != nil {
		return n, &Error{r.path, t.offset, withoutPath(err)}
	}
	return n, nil
}

// replace puts the file that take returns, of that size, in the place of the one that tails read.
func (w *ring) replace(size int64, take func() (*os.File, error)) error {
	r := w.recorder
	r.reading.Lock()
	defer r.reading.Unlock()
	file, err := take()
	if file != nil {
		w.file = file
	}
	r.mu.Lock()
	r.shrunk++
	r.status.Size = size
	r.mu.Unlock()
	return err
}

// close closes the file.
func (w *ring) close() error {
	w.recorder.reading.Lock()
	defer w.recorder.reading.Unlock()
	w.closed = true
	return w.file.Close()
}

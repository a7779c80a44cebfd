package recording

import (
	"errors"
	"io"
	"os"
)

// ErrShortened means that the recorder has dropped the oldest requests from its file, so the tail's
// offset is no longer valid.
var ErrShortened = errors.New("the recording has dropped its oldest requests")

// Tail reads a recorder's file while it is being written. Create one with [Recorder.Tail]. A Tail is not
// safe for concurrent use. It starts no goroutines and does not have to be closed. A slow reader does not
// delay the recorded client or the recording.
type Tail struct {
	recorder *Recorder
	shrunk   int // value of Recorder.shrunk when the tail started
	offset   int64
}

// Tail returns a new Tail that starts at the beginning of the file.
func (r *Recorder) Tail() *Tail {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &Tail{recorder: r, shrunk: r.shrunk}
}

// Next reads more of the file into p and returns the number of bytes read, or 0 if there is nothing new.
// The data may end in the middle of a block. Next returns io.EOF once the recording has ended, even if
// the tail has not read all of it. It returns an [*Error] if the file cannot be read, wrapping
// [ErrShortened] if requests were dropped.
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

// replace makes tails read from the file that take returns, which has the given size.
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

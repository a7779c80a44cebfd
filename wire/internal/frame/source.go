package frame

import (
	"errors"
	"io"
	"time"

	"github.com/millrace-dev/millrace/wire/internal/memory"
)

const (
	smallBuffer = 4 << 10 // used while the source is waiting

	// BusyBuffer is the maximum number of bytes read at once.
	BusyBuffer = 256 << 10

	// maxReusedBuffer is the maximum size of a buffer that is kept for reuse. A single huge object must not
	// tie up memory for the hours that a watch lasts.
	maxReusedBuffer = 1 << 20
)

// Source reads a body through a buffer in which the current value is always contiguous, so that it can be
// decoded in place. The buffer grows with the bytes received, never with declared lengths. Once everything
// has been consumed, the source switches to a small buffer while it waits, and releases the large one.
//
//	buf: ...consumed...|pos ...unread... |end ...free...
//	off: how many bytes of the body came before buf[0]
//
// A slice returned by Next or a scan is valid until the source reads on.
type Source struct {
	r          io.Reader
	buf        []byte
	small      []byte                  // the small buffer; buf is either this or a large one
	large      memory.Reusable[[]byte] // the large buffer
	pos        int
	end        int
	off        int64
	err        error        // from r, sticky; returned only after the buffer is consumed
	full       bool         // the last read filled the whole buffer
	readTime   time.Time    // when the bytes up to end arrived
	beforeRead func() error // called before reading more, if not nil
}

// NewSource returns a source that reads a body from r.
func NewSource(r io.Reader) *Source { return &Source{r: r} }

// FromBytes returns a source that reads from memory. Nothing is copied.
func FromBytes(data []byte) *Source {
	return &Source{buf: data, end: len(data), err: io.EOF}
}

// BeforeRead registers f, which is called before the source reads more. If f returns an error, the
// source stops reading.
func (s *Source) BeforeRead(f func() error) { s.beforeRead = f }

// ReadTime returns the arrival time of the most recently read bytes.
func (s *Source) ReadTime() time.Time { return s.readTime }

// Offset returns the next unread byte's position in the body.
func (s *Source) Offset() int64 { return s.off + int64(s.pos) }

// fill reads at least one more byte into the buffer. It keeps everything from pos on, and moves it
// to the front of the buffer.
func (s *Source) fill() error {
	if s.err != nil {
		return s.err
	}
	if s.beforeRead != nil {
		if err := s.beforeRead(); err != nil {
			return err
		}
	}
	s.makeRoom()
	for range 100 {
		n, err := s.r.Read(s.buf[s.end:])
		if n < 0 || n > len(s.buf)-s.end {
			n, err = 0, io.ErrNoProgress
		}
		s.end += n
		s.full = s.end == len(s.buf)
		if s.err = err; err != nil && err != io.EOF {
			s.err = &readError{err}
		}
		if n > 0 {
			s.readTime = time.Now()
			return nil
		}
		if s.err != nil {
			return s.err
		}
	}
	s.err = &readError{io.ErrNoProgress}
	return s.err
}

// readError marks an error from the reader, to distinguish a failed connection from malformed bytes.
type readError struct{ err error }

func (e *readError) Error() string { return e.err.Error() }
func (e *readError) Unwrap() error { return e.err }

func (s *Source) makeRoom() {
	if s.buf == nil {
		s.small = make([]byte, smallBuffer)
		s.buf = s.small
	}
	unread := s.buf[s.pos:s.end]
	buf := s.buf
	switch {
	case len(unread) == 0 && (!s.full || len(buf) > maxReusedBuffer):
		buf = s.small
		s.large.Release()
	case len(unread) == len(buf) || s.full && len(buf) < BusyBuffer:
		buf = s.larger(2 * len(buf))
	}
	copy(buf, unread)
	s.off += int64(s.pos)
	s.buf, s.pos, s.end = buf, 0, len(unread)
}

// larger returns a buffer with at least n bytes.
func (s *Source) larger(n int) []byte {
	if rest := s.large.Get(); rest != nil && n <= len(*rest) && len(*rest) <= maxReusedBuffer {
		return *rest
	}
	buf := make([]byte, n)
	s.large.Set(&buf)
	return buf
}

// Peek returns the next byte without consuming it.
func (s *Source) Peek() (byte, error) {
	for s.pos == s.end {
		if err := s.fill(); err != nil {
			return 0, err
		}
	}
	return s.buf[s.pos], nil
}

// Next consumes exactly n bytes. At the end of the body it returns io.EOF if no bytes are left, and
// io.ErrUnexpectedEOF if there are too few.
func (s *Source) Next(n int) ([]byte, error) {
	for s.end-s.pos < n {
		if err := s.fill(); err != nil {
			if err == io.EOF && s.end > s.pos {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	b := s.buf[s.pos : s.pos+n : s.pos+n]
	s.pos += n
	return b, nil
}

// Skip discards the next n bytes.
func (s *Source) Skip(n uint64) error {
	for n > 0 {
		if _, err := s.Peek(); err != nil {
			return err
		}
		step := min(n, uint64(s.end-s.pos))
		s.pos += int(step)
		n -= step
	}
	return nil
}

// IsTransport reports whether err came from the body's reader, which means that the connection failed but the
// bytes may be fine.
func IsTransport(err error) bool {
	_, ok := errors.AsType[*readError](err)
	return ok
}

// Item is a value that was found in a body but not decoded yet: its bytes, and for JSON a tape.
// Another goroutine may decode it while the reading goroutine is waiting.
type Item struct {
	Raw  []byte
	Tape Tape // empty unless the value is a JSON object or array
}

// Tape records the end of each object and array in a value, in the order in which they start, so that they
// can be skipped without being read again.
type Tape []extent

// extent is one object or array on a tape.
type extent struct {
	End  int32 // offset of its end in the value's bytes
	Next int32 // index of the first extent after it on the tape
}

// maxReusedTape is the maximum length, in extents, of a tape that is kept for the next value.
const maxReusedTape = 1 << 14

// Reset returns an empty tape that reuses the memory unless it is too large.
func (t Tape) Reset() Tape {
	if cap(t) > maxReusedTape {
		return nil
	}
	return t[:0]
}

// Within returns the object or array in i that starts at byte start and at index n of the tape. The
// result takes over i's tape, which must not be used afterwards.
func (i Item) Within(start, n int) Item {
	last := i.Tape[n]
	inner := i.Tape[n:last.Next]
	for s := range inner {
		inner[s].End -= int32(start)
		inner[s].Next -= int32(n)
	}
	return Item{Raw: i.Raw[start:last.End:last.End], Tape: inner}
}

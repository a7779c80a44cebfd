package recording

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// File is a recording opened for reading. It keeps the list of requests and the most recently read 1 MiB
// of data in memory. It is safe for concurrent use.
type File struct {
	Path     string
	Size     int64 // size of the readable portion, in bytes
	Began    time.Time
	Duration time.Duration // from Began to the last record
	Secrets  bool          // whether the contents of Secrets were recorded
	LeftOut  LeftOut
	Requests []*Request // in the order they were sent

	// Damage is the error that kept the file from being read to its end, for example after a crash.
	// Everything before that point is intact and usable. Damage is nil if the recording was closed
	// properly.
	Damage error

	blocks blocks

	mu   sync.Mutex
	from *os.File // nil after Close
}

// maxRequests limits the number of requests in a file.
const maxRequests = 1 << 18

// Open opens a recording and reads its list of requests. It returns an [*Error] if the file is unusable;
// if it is only partly readable, File.Damage is set. The caller must close the file.
func Open(path string) (*File, error) {
	from, err := openFile(path)
	if err != nil {
		return nil, &Error{path, -1, err}
	}
	info, err := from.Stat()
	if err != nil {
		return nil, &Error{path, -1, errors.Join(withoutPath(err), from.Close())}
	}
	f, err := newFile(path, from, info.Size())
	if err != nil {
		return nil, errors.Join(err, from.Close())
	}
	f.from = from
	return f, nil
}

// newFile reads the list of requests from in.
func newFile(path string, in io.ReaderAt, size int64) (*File, error) {
	f := &File{Path: path, blocks: blocks{in: in}}
	from := newBlockReader(io.NewSectionReader(in, 0, size))
	if err := from.begin(); err != nil {
		return nil, &Error{path, 0, withoutPath(err)}
	}
	x := indexer{file: f, under: map[uint64]*Request{}}
	for {
		at := from.at()
		block, err := from.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = x.block(block)
		}
		if err != nil {
			f.Damage = &Error{path, at.offset, withoutPath(err)}
			break
		}
		f.Size = from.offset
		f.blocks.size, f.blocks.at = f.Size, append(f.blocks.at, at)
	}
	switch {
	case !x.headed && f.Damage != nil:
		return nil, f.Damage
	case !x.headed:
		return nil, &Error{path, f.Size, fmt.Errorf("%w: it ends before the first record", ErrCutOff)}
	case f.Damage == nil && !x.stopped:
		f.Damage = &Error{path, f.Size, fmt.Errorf("%w: the recording was not closed", ErrCutOff)}
	}
	return f, nil
}

// Close closes the file. Replays still reading from it fail.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.from == nil {
		return nil
	}
	err := f.from.Close()
	f.from = nil
	f.blocks.forget()
	return err
}

// closed returns an error wrapping [ErrClosed] if the file is closed.
func (f *File) closed() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.from == nil {
		return &Error{f.Path, -1, ErrClosed}
	}
	return nil
}

// Server returns the server address of the first request, or "" if there are no requests.
func (f *File) Server() string {
	if len(f.Requests) == 0 {
		return ""
	}
	return f.Requests[0].Server
}

// indexer collects the requests in a file and the blocks that contain their records.
type indexer struct {
	file            *File
	under           map[uint64]*Request // requests in progress, by number
	headed, stopped bool
}

// block indexes one block.
func (x *indexer) block(block []byte) error {
	for len(block) > 0 {
		r, rest, err := next(block)
		if err == nil {
			err = x.record(&r)
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		block = rest
	}
	return nil
}

// record indexes one record.
func (x *indexer) record(r *record) error {
	f := x.file
	switch {
	case x.stopped:
		return errors.New("record after the end")
	case x.headed == (r.kind == kindHeader):
		return errors.New("missing or duplicate header")
	}
	q := x.under[r.request]
	if q == nil && r.kind != kindHeader && r.kind != kindStop && r.kind != kindRequest {
		return fmt.Errorf("record of kind %q for request %d, which is not in progress", r.kind, r.request)
	}
	f.Duration = max(f.Duration, r.at)
	switch r.kind {
	case kindHeader:
		return x.header(r)
	case kindStop:
		var s stop
		if err := decode(r, &s); err != nil {
			return err
		}
		f.LeftOut, x.stopped = s.LeftOut, true
		return nil
	case kindRequest:
		return x.request(r)
	case kindAnswer:
		if q.answered {
			return fmt.Errorf("second response to request %d", r.request)
		}
		if err := decode(r, &q.Answer); err != nil {
			return err
		}
		q.Answered, q.answered = r.at, true
	case kindChunk, kindWithheld:
		if !q.answered || r.kind == kindChunk && q.Withheld {
			return fmt.Errorf("body data for request %d, which has none", r.request)
		}
		q.Withheld = r.kind == kindWithheld // may depend on the response, so it is not known until now
		q.Bytes += bodyOf(r)
	case kindEnd:
		q.Whole = true
		delete(x.under, r.request)
		var e ending
		if err := decode(r, &e); err != nil {
			return err
		}
	default:
		return fmt.Errorf("record of unknown kind %q", r.kind)
	}
	q.Ended = r.at
	x.found(q)
	return nil
}

func (x *indexer) header(r *record) error {
	var h header
	if err := decode(r, &h); err != nil {
		return err
	}
	f := x.file
	f.Began, f.Secrets, f.LeftOut, x.headed = h.Began, h.Secrets, h.LeftOut, true
	return nil
}

func (x *indexer) request(r *record) error {
	q := &Request{At: r.at, Ended: r.at, id: r.request}
	if err := decode(r, q); err != nil {
		return err
	}
	f := x.file
	switch {
	case !q.fill():
		return errors.New("request is neither a list nor a watch")
	case x.under[r.request] != nil:
		return fmt.Errorf("duplicate request %d", r.request)
	case len(f.Requests) == maxRequests:
		return fmt.Errorf("more than %d requests", maxRequests)
	}
	x.under[r.request] = q
	f.Requests = append(f.Requests, q)
	x.found(q)
	return nil
}

// found notes that the current block contains records for q.
func (x *indexer) found(q *Request) {
	number := uint32(len(x.file.blocks.at))
	if n := len(q.blocks); n == 0 || q.blocks[n-1] != number {
		q.blocks = append(q.blocks, number)
	}
}

// decode decodes a record's payload.
func decode(r *record, into any) error {
	if err := json.Unmarshal(r.payload, into); err != nil {
		return fmt.Errorf("invalid record of kind %q: %w", r.kind, err)
	}
	return nil
}

// Body returns the recorded body of a request. The reader returns io.EOF at the end, no matter how the
// body ended.
func (f *File) Body(q *Request) io.Reader { return &bodyReader{records: f.reader(q)} }

// bodyReader concatenates the chunks of a body.
type bodyReader struct {
	records *requestReader
	part    []byte
	ended   bool
}

func (b *bodyReader) Read(p []byte) (int, error) {
	for len(b.part) == 0 {
		if b.ended {
			return 0, io.EOF
		}
		r, err := b.records.next()
		if err != nil {
			return 0, err
		}
		switch r.kind {
		case kindChunk:
			b.part = r.payload
		case kindEnd:
			b.ended = true
		}
	}
	n := copy(p, b.part)
	b.part = b.part[n:]
	return n, nil
}

// reader returns a reader for q's records.
func (f *File) reader(q *Request) *requestReader {
	return &requestReader{file: f, id: q.id, left: q.blocks}
}

// requestReader reads the records for one request, in order.
type requestReader struct {
	file   *File
	id     uint64
	left   []uint32 // blocks still to be read
	number uint32   // number of the current block
	block  []byte   // unread rest of the current block
	begun  bool
}

// next returns the next record, whose payload must not be modified. It returns io.EOF after the last
// one.
func (r *requestReader) next() (record, error) {
	for {
		for len(r.block) > 0 {
			rec, rest, err := next(r.block)
			if err != nil {
				return rec, r.wrap(err)
			}
			r.block = rest
			switch {
			case rec.request != r.id:
			case rec.kind == kindRequest && r.begun:
				return rec, io.EOF // the number has been reused
			case rec.kind == kindRequest:
				r.begun = true
			case r.begun:
				return rec, nil
			}
		}
		if len(r.left) == 0 {
			return record{}, io.EOF
		}
		r.number, r.left = r.left[0], r.left[1:]
		block, err := r.file.blocks.read(r.number)
		if errors.Is(err, io.EOF) {
			return record{}, io.EOF
		}
		if err != nil {
			return record{}, r.wrap(err)
		}
		r.block = block
	}
}

func (r *requestReader) wrap(err error) error {
	if errors.Is(err, os.ErrClosed) {
		err = ErrClosed
	}
	return &Error{r.file.Path, r.file.blocks.at[r.number].offset, withoutPath(err)}
}

// Errors returned by recorders, files and replays, wrapped in an [*Error].
var (
	// ErrDamaged means that the file was modified or was not written by this package.
	ErrDamaged = errors.New("the file is damaged")
	// ErrCutOff means that the file is truncated, for example by a crash. Everything before that point
	// is intact.
	ErrCutOff = errors.New("the file is truncated")
	// ErrVersion means that the file was written by another version of this package.
	ErrVersion = errors.New("the file was written by another version")
	// ErrBehind means that records arrived faster than the disk could write them.
	ErrBehind = errors.New("the disk is too slow for the recording")
	// ErrTaken means that another recorder has replaced the file with its own.
	ErrTaken = errors.New("another recorder writes to the same path: give each its own")
	// ErrClosed means that the file or the replay is closed.
	ErrClosed = errors.New("closed")
)

var errNotCreated = errors.New("the recorder is unusable: create it with Create")

// Error records a failed operation with the file and offset.
type Error struct {
	Path   string
	Offset int64 // offset of the problem; -1 if not applicable
	Err    error
}

// Error implements error.
func (e *Error) Error() string {
	if e.Offset < 0 {
		return fmt.Sprintf("recording %s: %v", e.Path, e.Err)
	}
	return fmt.Sprintf("recording %s: at byte %d: %v", e.Path, e.Offset, e.Err)
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

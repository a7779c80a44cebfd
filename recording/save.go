package recording

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// Save copies a recording, such as one from debug.Client.Recording, to a file until the recording ends.
// It handles an existing file as [Create] does. The input is validated: Save fails if it is not a
// recording, and writes only intact blocks. If an error occurs later, the file contains everything
// received up to then and is usable; if nothing was received, no file is created.
//
// opts.MaxSize limits the size of the file: if the recording is larger, the error wraps [ErrTooLarge].
func Save(path string, from io.Reader, opts Options) (Status, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return Status{Path: path}, &Error{path, -1, err}
	}
	in := &connection{Reader: from}
	s := &saving{from: newBlockReader(in), most: opts.MaxSize}
	s.index = indexer{file: &File{Path: path}, under: map[uint64]*Request{}}
	first, err := s.first()
	if in.err != nil {
		return s.status(), &Error{path, -1, in.err}
	}
	if err != nil {
		return s.status(), &Error{path, -1, fmt.Errorf("the input is not a recording: %w", err)}
	}
	if err := makeWay(path); err != nil {
		return s.status(), &Error{path, -1, err}
	}
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return s.status(), &Error{path, -1, withoutPath(err)}
	}
	s.to = blockWriter{to: to}
	if err = s.copy(first); in.err != nil {
		err = in.err // the error from the last block is only a symptom
	}
	if err = errors.Join(err, withoutPath(s.end()), sameFile(to, path), withoutPath(to.Close())); err != nil {
		return s.status(), &Error{path, -1, err}
	}
	return s.status(), nil
}

// connection remembers the first read error other than io.EOF.
type connection struct {
	io.Reader
	err error
}

func (c *connection) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if err != nil && err != io.EOF {
		c.err = fmt.Errorf("read the recording: %w", err)
	}
	return n, err
}

// ErrTooLarge means that a recording to be saved is larger than Options.MaxSize.
var ErrTooLarge = errors.New("the recording is larger than MaxSize")

// saving is the state of one call to [Save].
type saving struct {
	from  *blockReader
	to    blockWriter
	index indexer
	most  int64
}

// first reads the first block, which contains the header.
func (s *saving) first() ([]byte, error) {
	if err := s.from.begin(); err != nil {
		return nil, err
	}
	block, err := s.from.next()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: it ends before the first record", ErrCutOff)
	}
	if err != nil {
		return nil, err
	}
	return block, s.index.block(block)
}

// copy writes the given block and all intact blocks after it. The last block of an unfinished recording
// may be incomplete.
func (s *saving) copy(block []byte) error {
	if err := s.to.begin(); err != nil {
		return withoutPath(err)
	}
	for {
		if s.to.size+blockHead+2*blockSize > s.most {
			return fmt.Errorf("%w, which is %d", ErrTooLarge, s.most)
		}
		for len(block) > 0 {
			var r record
			var err error
			if r, block, err = next(block); err != nil {
				return err // already checked by index
			}
			if r.kind == kindStop {
				return nil
			}
			if err := s.to.add(&r); err != nil {
				return withoutPath(err)
			}
		}
		var err error
		if block, err = s.from.next(); errors.Is(err, io.EOF) || errors.Is(err, ErrCutOff) {
			return nil
		}
		if err == nil {
			err = s.index.block(block)
		}
		if err != nil {
			return err
		}
	}
}

// end writes the final record.
func (s *saving) end() error {
	f := s.index.file
	return errors.Join(s.to.add(&record{kind: kindStop, at: f.Duration + time.Nanosecond, payload: encode(stop{f.LeftOut})}), s.to.flush())
}

func (s *saving) status() Status {
	f := s.index.file
	status := Status{Path: f.Path, Requests: len(f.Requests) + f.LeftOut.Requests, Bytes: f.LeftOut.Bytes, Size: s.to.size, LeftOut: f.LeftOut, Secrets: f.Secrets}
	for _, q := range f.Requests {
		status.Bytes += q.Bytes
	}
	return status
}

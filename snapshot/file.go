package snapshot

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
)

// magic begins every file. A change of what is in a file changes it.
const magic = "millrace snapshot 1\n"

// blockSize is how much content a block has, but for the last ones.
const blockSize = 1 << 20

// largestLabel is how long a label may be.
const largestLabel = 1 << 20

// castagnoli is the polynomial for which processors have an instruction.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// headSize is that of what stands before the bytes of a block: length and checksum.
const headSize = 8

// Writer takes the content of one file. It belongs to one goroutine.
type Writer struct {
	to   io.Writer
	sum  uint32
	size int64
	room []byte // a head, and what is not written yet
}

func newWriter(to io.Writer) *Writer {
	return &Writer{to: to, room: make([]byte, headSize, headSize+blockSize)}
}

// begin writes what comes before the content.
func (w *Writer) begin(l *Label) error {
	label, err := json.Marshal(l)
	if err != nil {
		return err
	}
	n, err := io.WriteString(w.to, magic)
	w.size += int64(n)
	if err != nil {
		return err
	}
	w.room = append(w.room, label...)
	return w.flush()
}

// Write implements io.Writer.
func (w *Writer) Write(content []byte) (n int, err error) {
	for n < len(content) {
		part := content[n:min(len(content), n+headSize+blockSize-len(w.room))]
		w.room = append(w.room, part...)
		n += len(part)
		if len(w.room) == headSize+blockSize {
			if err := w.flush(); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// end writes what is left, and the end.
func (w *Writer) end() error {
	if len(w.room) > headSize {
		if err := w.flush(); err != nil {
			return err
		}
	}
	return w.flush()
}

// flush writes a block.
func (w *Writer) flush() error {
	binary.LittleEndian.PutUint32(w.room, uint32(len(w.room)-headSize))
	w.sum = crc32.Update(crc32.Update(w.sum, castagnoli, w.room[:4]), castagnoli, w.room[headSize:])
	binary.LittleEndian.PutUint32(w.room[4:], w.sum)
	n, err := w.to.Write(w.room)
	w.size += int64(n)
	w.room = w.room[:headSize]
	return err
}

// File is a snapshot that was read and is whole.
type File struct {
	Path string
	Label
	Size    int64  // of the file, in bytes
	Content []byte // what was written into it
}

// Open reads the snapshot at a path, whatever it is of. It fails with an *Error.
func Open(path string) (*File, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		if p, ok := errors.AsType[*os.PathError](err); ok {
			err = fmt.Errorf("%s: %w", p.Op, p.Err) // the Error says which
		}
		return nil, &Error{path, err}
	}
	f := &File{Path: path, Size: int64(len(raw))}
	if err := f.parse(raw); err != nil {
		return nil, &Error{path, err}
	}
	return f, nil
}

// parse takes the file apart. The content moves to the beginning of raw.
func (f *File) parse(raw []byte) error {
	if !bytes.HasPrefix(raw, []byte(magic)) {
		return fmt.Errorf("%w: it does not begin as one of this version does", ErrDamaged)
	}
	var sum uint32
	var label []byte
	content, rest := raw[:0], raw[len(magic):]
	for number := 0; ; number++ {
		if len(rest) < headSize {
			return fmt.Errorf("%w: it ends before block %d", ErrDamaged, number)
		}
		size := binary.LittleEndian.Uint32(rest)
		if uint64(size) > uint64(len(rest)-headSize) {
			return fmt.Errorf("%w: it ends within block %d", ErrDamaged, number)
		}
		block := rest[headSize : headSize+size]
		sum = crc32.Update(crc32.Update(sum, castagnoli, rest[:4]), castagnoli, block)
		if sum != binary.LittleEndian.Uint32(rest[4:]) {
			return fmt.Errorf("%w: the checksum of block %d is wrong", ErrDamaged, number)
		}
		rest = rest[headSize+size:]
		if number == 0 {
			label = bytes.Clone(block[:min(size, largestLabel)])
			continue
		}
		if size == 0 {
			break
		}
		content = append(content, block...)
	}
	if len(rest) > 0 {
		return fmt.Errorf("%w: %d bytes follow its end", ErrDamaged, len(rest))
	}
	if err := json.Unmarshal(label, &f.Label); err != nil || f.Objects < 0 {
		return fmt.Errorf("%w: its label cannot be read", ErrDamaged)
	}
	f.Content = content
	return nil
}

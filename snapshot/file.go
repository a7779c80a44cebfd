package snapshot

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"os"
)

// magic is the header of every file. It changes with the format.
const magic = "millrace snapshot 2\n"

// blockSize is the size of every content block except the last one and the empty one after it.
const blockSize = 1 << 20

// largestLabel is the maximum size of a label.
const largestLabel = 1 << 20

// castagnoli is the CRC polynomial with hardware support.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// headSize is the size of a block header: length and checksum.
const headSize = 8

// Writer writes the content of one file. It is not safe for concurrent use.
type Writer struct {
	to   io.Writer
	sum  uint32
	size int64
	room []byte // room for a block header, followed by the buffered content
}

func newWriter(to io.Writer) *Writer {
	return &Writer{to: to, room: make([]byte, headSize, headSize+blockSize)}
}

// begin writes the magic and the label.
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

// end writes the remaining content and the empty block that marks the end.
func (w *Writer) end() error {
	if len(w.room) > headSize {
		if err := w.flush(); err != nil {
			return err
		}
	}
	return w.flush()
}

// flush writes the buffered content as a block.
func (w *Writer) flush() error {
	binary.LittleEndian.PutUint32(w.room, uint32(len(w.room)-headSize))
	w.sum = crc32.Update(crc32.Update(w.sum, castagnoli, w.room[:4]), castagnoli, w.room[headSize:])
	binary.LittleEndian.PutUint32(w.room[4:], w.sum)
	n, err := w.to.Write(w.room)
	w.size += int64(n)
	w.room = w.room[:headSize]
	return err
}

// File is a snapshot that has been read completely.
type File struct {
	Path string
	Label
	Size    int64  // size of the file, in bytes
	Content []byte // as written by Directory.Write
}

// Open reads the snapshot at path, regardless of its label. On failure it returns an [*Error].
func Open(path string) (*File, error) {
	return open(path, func(fs.FileInfo) error { return nil })
}

// open reads the snapshot at path if check accepts the file.
func open(path string, check func(fs.FileInfo) error) (*File, error) {
	f := &File{Path: path}
	if err := f.open(check); err != nil {
		if p, ok := errors.AsType[*os.PathError](err); ok {
			err = fmt.Errorf("%s: %w", p.Op, p.Err) // the Error contains the path
		}
		return nil, &Error{path, err}
	}
	return f, nil
}

func (f *File) open(check func(fs.FileInfo) error) error {
	from, err := openRegular(f.Path, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer from.Close()
	info, err := from.Stat()
	if err == nil {
		err = check(info)
	}
	if err != nil {
		return err
	}
	return f.parse(from, info.Size())
}

// parse reads a file of the given size.
func (f *File) parse(from io.ReaderAt, size int64) error {
	start := make([]byte, len(magic))
	if _, err := from.ReadAt(start, 0); ends(err) || err == nil && string(start) != magic {
		return fmt.Errorf("%w: bad header, or a file from another version", ErrDamaged)
	} else if err != nil {
		return err
	}
	label, content, err := measure(from, size)
	if err != nil {
		return err
	}
	r := blocks{from: bufio.NewReaderSize(io.NewSectionReader(from, int64(len(magic)), size), readSize)}
	raw := make([]byte, label)
	if err := r.next(raw); err != nil {
		return err
	}
	if err := json.Unmarshal(raw, &f.Label); err != nil || f.Objects < 0 {
		return fmt.Errorf("%w: invalid label", ErrDamaged)
	}
	f.Size, f.Content = size, make([]byte, content)
	for rest := f.Content; len(rest) > 0; {
		block := rest[:min(len(rest), r.ahead())]
		if err := r.next(block); err != nil {
			return err
		}
		rest = rest[len(block):]
	}
	return r.next(nil)
}

// readSize is the buffer size for reads.
const readSize = 1 << 16

// measure adds up the block lengths and checks the sum against the file size. As a result,
// memory is allocated only for bytes that exist, so a corrupt length is harmless.
func measure(from io.ReaderAt, size int64) (label, content int, err error) {
	var head [headSize]byte
	at := int64(len(magic))
	for number := 0; ; number++ {
		if _, err := from.ReadAt(head[:], at); ends(err) || err == nil && at+headSize > size {
			return 0, 0, fmt.Errorf("%w: it ends before block %d", ErrDamaged, number)
		} else if err != nil {
			return 0, 0, err
		}
		length := binary.LittleEndian.Uint32(head[:])
		at += headSize + int64(length)
		switch {
		case at > size:
			return 0, 0, fmt.Errorf("%w: it ends in the middle of block %d", ErrDamaged, number)
		case length > max(blockSize, largestLabel), content > math.MaxInt-int(length):
			return 0, 0, fmt.Errorf("%w: block %d is too large", ErrDamaged, number)
		case number == 0:
			label = int(length)
		case length > 0:
			content += int(length)
		case at < size:
			return 0, 0, fmt.Errorf("%w: %d trailing bytes", ErrDamaged, size-at)
		default:
			return label, content, nil
		}
	}
}

// blocks reads blocks sequentially.
type blocks struct {
	from   *bufio.Reader
	sum    uint32
	number int
}

// ahead returns the length of the next block without reading it, or 0 if there is none.
func (b *blocks) ahead() int {
	head, err := b.from.Peek(4)
	if err != nil {
		return 0
	}
	return int(min(binary.LittleEndian.Uint32(head), blockSize))
}

// next reads the next block into block and verifies its length and checksum.
func (b *blocks) next(block []byte) error {
	var head [headSize]byte
	_, err := io.ReadFull(b.from, head[:])
	if err == nil {
		_, err = io.ReadFull(b.from, block)
	}
	switch {
	case ends(err):
		return fmt.Errorf("%w: it ends in the middle of block %d", ErrDamaged, b.number)
	case err != nil:
		return err
	}
	b.sum = crc32.Update(crc32.Update(b.sum, castagnoli, head[:4]), castagnoli, block)
	if b.sum != binary.LittleEndian.Uint32(head[4:]) || uint64(binary.LittleEndian.Uint32(head[:])) != uint64(len(block)) {
		return fmt.Errorf("%w: checksum mismatch in block %d", ErrDamaged, b.number)
	}
	b.number++
	return nil
}

// ends reports whether err indicates the end of the file.
func ends(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

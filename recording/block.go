package recording

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/s2"
)

// magic begins every file. A change of what is in a file changes its number.
const magic = "millrace recording 1\n"

// anyMagic begins those of every version.
const anyMagic = "millrace recording "

const (
	// blockSize is how much a block holds, before it is compressed.
	blockSize = 64 << 10

	// blockHead is the size of what stands before the bytes of a block: their number, how
	// many they were before, and a checksum.
	blockHead = 12

	// maxRatio is how much a block may expand. A file cannot hold more than that many
	// times its size. What would compress better is written as it is.
	maxRatio = 64
)

// castagnoli is the polynomial for which processors have an instruction.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// blockWriter writes records in blocks. It belongs to one goroutine.
type blockWriter struct {
	to    io.Writer
	sum   uint32
	size  int64 // of all that was written, in bytes
	block []byte
	room  []byte
}

// begin writes what comes before the first block.
func (w *blockWriter) begin() error {
	n, err := io.WriteString(w.to, magic)
	w.size += int64(n)
	return err
}

// add writes a record, now or with the next flush.
func (w *blockWriter) add(r *record) error {
	if len(w.block)+maxHead+len(r.payload) > blockSize {
		if err := w.flush(); err != nil {
			return err
		}
	}
	w.block = r.append(w.block)
	return nil
}

// flush writes what is left as a block.
func (w *blockWriter) flush() error {
	if len(w.block) == 0 {
		return nil
	}
	if w.room == nil {
		w.room = make([]byte, blockHead+s2.MaxEncodedLen(blockSize))
	}
	stored := s2.Encode(w.room[blockHead:], w.block)
	if len(stored) >= len(w.block) || len(stored)*maxRatio < len(w.block) {
		stored = append(w.room[blockHead:blockHead], w.block...)
	}
	err := w.write(stored, len(w.block))
	w.block = w.block[:0]
	return err
}

// write writes a block, whose bytes stand in room already.
func (w *blockWriter) write(stored []byte, raw int) error {
	head := w.room[:blockHead]
	binary.LittleEndian.PutUint32(head, uint32(len(stored)))
	binary.LittleEndian.PutUint32(head[4:], uint32(raw))
	w.sum = crc32.Update(crc32.Update(w.sum, castagnoli, head[:8]), castagnoli, stored)
	binary.LittleEndian.PutUint32(head[8:], w.sum)
	n, err := w.to.Write(w.room[:blockHead+len(stored)])
	if err == nil {
		w.size += int64(n)
	}
	return err
}

// blockReader reads what a blockWriter wrote. It belongs to one goroutine.
type blockReader struct {
	from   *bufio.Reader
	sum    uint32
	offset int64 // of what is read next
	stored []byte
	raw    []byte
}

// mark is where a block stands.
type mark struct {
	offset int64
	sum    uint32 // of the blocks before
}

func newBlockReader(from io.Reader) *blockReader {
	return &blockReader{from: bufio.NewReaderSize(from, 4<<10)}
}

// begin reads what comes before the first block.
func (r *blockReader) begin() error {
	var begins [len(magic)]byte
	n, err := io.ReadFull(r.from, begins[:])
	switch got := string(begins[:n]); {
	case got == magic:
		r.offset = int64(len(magic))
		return nil
	case err != nil && !atEnd(err):
		return err
	case len(got) >= len(anyMagic) && got[:len(anyMagic)] == anyMagic && err == nil:
		return fmt.Errorf("%w: it begins %q, and this program reads %q", ErrVersion, got, magic)
	case n == 0:
		return fmt.Errorf("%w: it is empty", ErrCutOff)
	}
	return fmt.Errorf("%w: it does not begin as a recording does, such as config.Config.Recorder and informer-debug record write", ErrDamaged)
}

// at is where the next block stands.
func (r *blockReader) at() mark { return mark{r.offset, r.sum} }

// next returns the content of the next block, which is good until the next call. The
// error is io.EOF at the end of the file.
func (r *blockReader) next() ([]byte, error) {
	var head [blockHead]byte
	switch n, err := io.ReadFull(r.from, head[:]); {
	case err != nil && !atEnd(err):
		return nil, err
	case n == 0:
		return nil, io.EOF
	case n < blockHead:
		return nil, fmt.Errorf("%w: %d bytes of a block's head", ErrCutOff, n)
	}
	stored, raw := binary.LittleEndian.Uint32(head[:]), binary.LittleEndian.Uint32(head[4:])
	if stored == 0 || stored > raw || raw > blockSize || uint64(raw) > maxRatio*uint64(stored) {
		return nil, fmt.Errorf("%w: a block of %d bytes that were %d before", ErrDamaged, stored, raw)
	}
	if r.stored == nil {
		r.stored, r.raw = make([]byte, blockSize), make([]byte, blockSize)
	}
	bytes := r.stored[:stored]
	if n, err := io.ReadFull(r.from, bytes); err != nil {
		if !atEnd(err) {
			return nil, err
		}
		return nil, fmt.Errorf("%w: %d of the %d bytes of a block", ErrCutOff, n, stored)
	}
	sum := crc32.Update(crc32.Update(r.sum, castagnoli, head[:8]), castagnoli, bytes)
	if sum != binary.LittleEndian.Uint32(head[8:]) {
		return nil, fmt.Errorf("%w: the checksum of a block is wrong", ErrDamaged)
	}
	content := bytes
	if stored < raw {
		if n, err := s2.DecodedLen(bytes); err != nil || n != int(raw) {
			return nil, fmt.Errorf("%w: a block does not unpack to %d bytes", ErrDamaged, raw)
		}
		var err error
		if content, err = s2.Decode(r.raw[:raw], bytes); err != nil {
			return nil, fmt.Errorf("%w: a block does not unpack: %w", ErrDamaged, err)
		}
	}
	r.sum, r.offset = sum, r.offset+blockHead+int64(stored)
	return content, nil
}

// atEnd reports whether a read failed because nothing more is there.
func atEnd(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

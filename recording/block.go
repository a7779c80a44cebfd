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

// magic is the file header. The number is the format version.
const magic = "millrace recording 1\n"

// anyMagic is the header prefix shared by all format versions.
const anyMagic = "millrace recording "

const (
	// blockSize is the maximum size of a block before compression.
	blockSize = 64 << 10

	// blockHead is the size of a block header: stored length, raw length, and checksum.
	blockHead = 12

	// maxRatio limits the compression ratio of a block, and thus how much a file can expand. A block
	// that compresses better is stored uncompressed.
	maxRatio = 64
)

// castagnoli is the CRC polynomial with hardware support.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// blockWriter groups records into blocks and writes them. It is not safe for concurrent use.
type blockWriter struct {
	to    io.Writer
	sum   uint32
	size  int64 // bytes written so far
	block []byte
	room  []byte
}

// begin writes the file header.
func (w *blockWriter) begin() error {
	n, err := io.WriteString(w.to, magic)
	w.size += int64(n)
	return err
}

// add buffers a record, flushing the current block first if the record does not fit.
func (w *blockWriter) add(r *record) error {
	if len(w.block)+maxHead+len(r.payload) > blockSize {
		if err := w.flush(); err != nil {
			return err
		}
	}
	w.block = r.append(w.block)
	return nil
}

// flush writes the pending records as a block.
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

// write writes a block whose content is already in room.
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

// blockReader reads the output of a [blockWriter]. It is not safe for concurrent use.
type blockReader struct {
	from   *bufio.Reader
	sum    uint32
	offset int64 // offset of the next block
	stored []byte
	raw    []byte
}

// mark is a block's position.
type mark struct {
	offset int64
	sum    uint32 // checksum of all earlier blocks
}

func newBlockReader(from io.Reader) *blockReader {
	return &blockReader{from: bufio.NewReaderSize(from, 4<<10)}
}

// begin reads the file header.
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
		return fmt.Errorf("%w: the file header is %q, this program reads %q", ErrVersion, got, magic)
	case n == 0:
		return fmt.Errorf("%w: it is empty", ErrCutOff)
	}
	return fmt.Errorf("%w: not a recording; create one with config.Config.Recorder or informer-debug record", ErrDamaged)
}

// at returns the next block's position.
func (r *blockReader) at() mark { return mark{r.offset, r.sum} }

// next returns the content of the next block, which is valid until the next call. It returns io.EOF at
// the end of the file.
func (r *blockReader) next() ([]byte, error) {
	var head [blockHead]byte
	switch n, err := io.ReadFull(r.from, head[:]); {
	case err != nil && !atEnd(err):
		return nil, err
	case n == 0:
		return nil, io.EOF
	case n < blockHead:
		return nil, fmt.Errorf("%w: only %d bytes of a block header", ErrCutOff, n)
	}
	stored, raw := binary.LittleEndian.Uint32(head[:]), binary.LittleEndian.Uint32(head[4:])
	if stored == 0 || stored > raw || raw > blockSize || uint64(raw) > maxRatio*uint64(stored) {
		return nil, fmt.Errorf("%w: invalid block size: %d bytes, %d uncompressed", ErrDamaged, stored, raw)
	}
	if r.stored == nil {
		r.stored, r.raw = make([]byte, blockSize), make([]byte, blockSize)
	}
	bytes := r.stored[:stored]
	if n, err := io.ReadFull(r.from, bytes); err != nil {
		if !atEnd(err) {
			return nil, err
		}
		return nil, fmt.Errorf("%w: only %d of %d bytes of a block", ErrCutOff, n, stored)
	}
	sum := crc32.Update(crc32.Update(r.sum, castagnoli, head[:8]), castagnoli, bytes)
	if sum != binary.LittleEndian.Uint32(head[8:]) {
		return nil, fmt.Errorf("%w: block checksum mismatch", ErrDamaged)
	}
	content := bytes
	if stored < raw {
		if n, err := s2.DecodedLen(bytes); err != nil || n != int(raw) {
			return nil, fmt.Errorf("%w: a block does not decompress to %d bytes", ErrDamaged, raw)
		}
		var err error
		if content, err = s2.Decode(r.raw[:raw], bytes); err != nil {
			return nil, fmt.Errorf("%w: cannot decompress block: %w", ErrDamaged, err)
		}
	}
	r.sum, r.offset = sum, r.offset+blockHead+int64(stored)
	return content, nil
}

// atEnd reports whether err means that the input is exhausted.
func atEnd(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

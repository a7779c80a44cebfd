package recording

import (
	"errors"
	"fmt"
	"io"
	"sync"
)

// maxKept is how many blocks are kept once they were read.
const maxKept = 16

// blocks are those of a file that can be read. Requests that are under way together have
// their records in the same ones, so that the last few are kept. It is safe for concurrent use
// once it is whole.
type blocks struct {
	in   io.ReaderAt
	size int64
	at   []mark // by number

	mu     sync.Mutex
	reader *blockReader
	kept   [maxKept]keptBlock // by what is left of their numbers, divided by maxKept
}

type keptBlock struct {
	number  uint32
	content []byte // nil if there is none
}

// read returns the content of a block, which must not be changed. The error is io.EOF if there
// is no block of that number.
func (b *blocks) read(number uint32) ([]byte, error) {
	if int64(number) >= int64(len(b.at)) {
		return nil, io.EOF
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	kept := &b.kept[number%maxKept]
	if kept.content != nil && kept.number == number {
		return kept.content, nil
	}
	at := b.at[number]
	from := io.NewSectionReader(b.in, at.offset, b.size-at.offset)
	if b.reader == nil {
		b.reader = newBlockReader(from)
	}
	b.reader.from.Reset(from)
	b.reader.offset, b.reader.sum = at.offset, at.sum
	content, err := b.reader.next()
	switch {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%w: the file has become shorter since it was opened", ErrCutOff)
	case err != nil:
		return nil, err
	}
	*kept = keptBlock{number, append([]byte(nil), content...)}
	return kept.content, nil
}

// forget drops what is kept.
func (b *blocks) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kept, b.reader = [maxKept]keptBlock{}, nil
}

package recording

import (
	"errors"
	"fmt"
	"io"
	"sync"
)

// maxKept is the maximum number of cached blocks.
const maxKept = 16

// blocks reads the intact blocks of a file. Records of concurrent requests share blocks, so the most
// recently used ones are cached. blocks is safe for concurrent use once at is complete.
type blocks struct {
	in   io.ReaderAt
	size int64
	at   []mark // indexed by block number

	mu     sync.Mutex
	reader *blockReader
	kept   [maxKept]keptBlock // indexed by block number modulo maxKept
}

type keptBlock struct {
	number  uint32
	content []byte // nil if there is none
}

// read returns a block's content, which the caller must not modify. It returns io.EOF if there is no
// such block.
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
		return nil, fmt.Errorf("%w: the file was truncated after it was opened", ErrCutOff)
	case err != nil:
		return nil, err
	}
	*kept = keptBlock{number, append([]byte(nil), content...)}
	return kept.content, nil
}

// forget empties the cache.
func (b *blocks) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kept, b.reader = [maxKept]keptBlock{}, nil
}

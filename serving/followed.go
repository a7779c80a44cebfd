package serving

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// lookInterval is how long the content of files is trusted before it is read
// again. A certificate is replaced hours before it expires; ten seconds is short
// enough for trying it out.
const lookInterval = 10 * time.Second

// followed is a value that stands in files, which may change. The files are
// read when the value is asked for, so that nothing runs in between.
type followed[T any] struct {
	log   *slog.Logger
	paths []string
	parse func(files [][]byte) (T, error)

	mu     sync.Mutex // guards what follows, and lets one caller read at a time
	value  T
	files  [][]byte
	looked time.Time
	failed string // of the last look, so that it is said once
}

// follow reads the files for the first time.
func follow[T any](log *slog.Logger, parse func([][]byte) (T, error), paths ...string) (*followed[T], error) {
	f := &followed[T]{log: log, paths: paths, parse: parse}
	return f, f.look()
}

// get returns the value of now, or the last one that was good.
func (f *followed[T]) get() T {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.looked) < lookInterval {
		return f.value
	}
	switch err := f.look(); {
	case err == nil:
		f.failed = ""
	case err.Error() != f.failed:
		f.failed = err.Error()
		f.log.Warn("what was read before stays in use", "err", err)
	}
	return f.value
}

// look is called with mu held, or before f is shared.
func (f *followed[T]) look() error {
	f.looked = time.Now()
	files := make([][]byte, len(f.paths))
	for n, path := range f.paths {
		var err error
		if files[n], err = os.ReadFile(path); err != nil {
			return err // names the file
		}
	}
	if f.files != nil && slices.EqualFunc(files, f.files, bytes.Equal) {
		return nil
	}
	value, err := f.parse(files)
	if err != nil {
		return fmt.Errorf("%s: %w", strings.Join(f.paths, " and "), err)
	}
	if f.files != nil {
		f.log.Info("read again", "files", f.paths)
	}
	f.value, f.files = value, files
	return nil
}

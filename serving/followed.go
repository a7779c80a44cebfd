package serving

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/millrace-dev/millrace/internal/reading"
)

// lookInterval is how long file contents are used before the files are read again. Certificates are replaced
// hours before they expire, so this could be longer, but ten seconds is convenient for experiments.
const lookInterval = 10 * time.Second

// followed is a value parsed from files that may change. The files are read when the value is needed, not in
// the background.
type followed[T any] struct {
	log   *slog.Logger
	names []string // "certificate in PATH"
	parse func(files [][]byte) (T, error)
	from  *reading.Files

	mu     sync.Mutex // guards the fields below
	value  T
	files  [][]byte // nil until the first value is available
	looked time.Time
	failed string // error from the last read, so that it is logged only once
}

// follow reads the files for the first time.
func follow[T any](log *slog.Logger, parse func([][]byte) (T, error), files ...reading.File) (*followed[T], error) {
	f := &followed[T]{log: log, parse: parse}
	for _, file := range files {
		f.names = append(f.names, file.String())
	}
	f.from = reading.New(log, files, os.ReadFile, f.take)
	return f, f.from.Wait(context.Background()) // before the first request
}

// get returns the current value or, if it is unusable, the last good one.
func (f *followed[T]) get() T {
	f.mu.Lock()
	old := time.Since(f.looked) >= lookInterval
	f.mu.Unlock()
	if old {
		_ = f.from.Try(context.Background()) // errors have been logged
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.value
}

// take stores the file contents or the read error. It fails only if there is no value yet.
func (f *followed[T]) take(files [][]byte, err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looked = time.Now()
	if err == nil {
		err = f.change(files)
	}
	switch {
	case err == nil:
		f.failed = ""
	case f.files == nil:
		return err
	case err.Error() != f.failed:
		f.failed = err.Error()
		f.log.Warn("still using the last good contents", "err", err)
	}
	return nil
}

// change parses the files if they have changed. The caller must hold mu.
func (f *followed[T]) change(files [][]byte) error {
	if f.files != nil && slices.EqualFunc(files, f.files, bytes.Equal) {
		return nil
	}
	value, err := f.parse(files)
	if err != nil {
		return fmt.Errorf("%s: %w", strings.Join(f.names, " and "), err)
	}
	if f.files != nil {
		f.log.Info("files reloaded", "files", f.names)
	}
	f.value, f.files = value, files
	return nil
}

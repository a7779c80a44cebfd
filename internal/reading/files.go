// Package reading reads files whose reads may hang, such as pipes and files on network mounts.
package reading

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/source"
)

// Patience is how long [Files.Try] waits. A local disk responds a thousand times faster than that.
const Patience = time.Second

// ErrSlow means that [Files.Try] has stopped waiting.
var ErrSlow = errors.New("it does not respond: check its file system")

// File is a file with a description.
type File struct {
	What string // such as "bearer token"
	Path string
}

// String returns a description such as "bearer token in PATH".
func (f File) String() string { return f.What + " in " + f.Path }

// Files reads a set of files, using one goroutine for all callers. A blocked read cannot be canceled, so
// a caller that gives up leaves the goroutine running. It delivers its result no matter how late it is, and
// no other goroutine is started until it is done.
type Files struct {
	log   *slog.Logger
	files []File
	read  func(path string) ([]byte, error)
	take  func(contents [][]byte, err error) error

	mu      sync.Mutex // guards running and some fields of run
	running *run       // nil if no read is in progress
}

// run is one pass over all files.
type run struct {
	began time.Time
	at    int  // index of the file being read; at and told are guarded by Files.mu
	told  bool // whether a warning has been logged

	done chan struct{} // closed when err is set
	err  error
}

// New returns a Files that uses read to read the files. When all of them have been read, or one has
// failed, take is called with the contents or the error, and its result is returned to the callers.
func New(log *slog.Logger, files []File, read func(path string) ([]byte, error), take func(contents [][]byte, err error) error) *Files {
	return &Files{log: log, files: files, read: read, take: take}
}

// Wait reads the files. If ctx is done first, it returns a *source.StuckError that includes the blocked
// file.
func (f *Files) Wait(ctx context.Context) error { return f.wait(ctx, false) }

// Try is like [Files.Wait], for callers that can fall back on the previous contents. It fails with
// [ErrSlow] once a pass has taken longer than [Patience].
func (f *Files) Try(ctx context.Context) error { return f.wait(ctx, true) }

// Again is like [Files.Try], for callers that know the previous contents to be invalid. A pass that was
// already running may still return those, so it is followed by another one.
func (f *Files) Again(ctx context.Context) error {
	r, began := f.join()
	if err := f.await(ctx, r, true); err != nil {
		return err
	}
	if began {
		return r.err
	}
	return f.wait(ctx, true)
}

func (f *Files) wait(ctx context.Context, brief bool) error {
	r, _ := f.join()
	if err := f.await(ctx, r, brief); err != nil {
		return err
	}
	return r.err
}

// await waits until a run has ended, or returns an error explaining why it stopped waiting.
func (f *Files) await(ctx context.Context, r *run, brief bool) error {
	if left := Patience - time.Since(r.began); left > 0 {
		source.ProgressOf(ctx).Step("", f.at(r).String())
		patience := time.NewTimer(left)
		defer patience.Stop()
		select {
		case <-r.done:
			return nil
		case <-ctx.Done():
			return f.stuck(r, context.Cause(ctx))
		case <-patience.C:
		}
	}
	f.complain(r)
	if brief {
		return f.stuck(r, ErrSlow)
	}
	source.ProgressOf(ctx).Step("", f.at(r).String())
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return f.stuck(r, context.Cause(ctx))
	}
}

// join returns the current run, or starts a new one.
func (f *Files) join() (r *run, began bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.running != nil {
		return f.running, false
	}
	f.running = &run{began: time.Now(), done: make(chan struct{})}
	go f.run(f.running)
	return f.running, true
}

// run reads all files. It also ends if the reader, or the logger that take uses, panics or calls
// runtime.Goexit.
func (f *Files) run(r *run) {
	contents := make([][]byte, len(f.files))
	var err error
	for n, file := range f.files {
		f.mu.Lock()
		r.at = n
		f.mu.Unlock()
		err = failure.Apart("the reading of "+file.Path, func() (err error) {
			contents[n], err = f.read(file.Path)
			return err
		})
		if err != nil {
			contents, err = nil, fmt.Errorf("%s: %w", file.What, err) // err contains the path
			break
		}
	}
	r.err = failure.Apart("the use of the contents", func() error { return f.take(contents, err) })
	f.mu.Lock()
	f.running = nil
	f.mu.Unlock()
	close(r.done)
}

// at returns the file being read.
func (f *Files) at(r *run) File {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.files) == 0 {
		return File{}
	}
	return f.files[r.at]
}

// complain logs that a file is blocked, once per run.
func (f *Files) complain(r *run) {
	f.mu.Lock()
	told := r.told
	r.told = true
	f.mu.Unlock()
	if !told {
		f.log.Warn("reading a file hangs: check its file system", "file", f.at(r).String(), "after", Patience)
	}
}

func (f *Files) stuck(r *run, reason error) error {
	return &source.StuckError{What: f.at(r).String(), For: time.Since(r.began), Err: reason}
}

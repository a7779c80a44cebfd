// Package reading reads files that may not answer: on the disk of another machine, or because
// they are no files but pipes.
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

// Patience is how long Try waits. A disk of this machine answers in a thousandth of it.
const Patience = time.Second

// ErrSlow is why Try waits no longer.
var ErrSlow = errors.New("it does not answer when it is read: check the file system that it is on")

// A File is read for what it holds.
type File struct {
	What string // such as "bearer token"
	Path string
}

// String reads "bearer token in PATH".
func (f File) String() string { return f.What + " in " + f.Path }

// Files are read together, by one goroutine for all who wait. Nobody can end the read of a
// file: whoever gives up leaves the goroutine behind, which goes on and hands over what it
// reads, however late. As long as it does, no other one begins.
type Files struct {
	log   *slog.Logger
	files []File
	read  func(path string) ([]byte, error)
	take  func(contents [][]byte, err error) error

	mu      sync.Mutex // guards running, and what says so
	running *run       // nil while nothing is read
}

// run is a reading of all files.
type run struct {
	began time.Time
	at    int  // the file that is read now; guarded by the mu of Files, as is the one below
	told  bool // that it does not answer

	done chan struct{} // closed when err is set
	err  error
}

// New returns files that read reads. When all have been, or one could not be, take is called
// with what they hold or the error, and those who wait get what it returns.
func New(log *slog.Logger, files []File, read func(path string) ([]byte, error), take func(contents [][]byte, err error) error) *Files {
	return &Files{log: log, files: files, read: read, take: take}
}

// Wait has the files read, and waits for it as long as ctx lasts. If that is too short the error is a
// *source.StuckError, which names the file that does not answer.
func (f *Files) Wait(ctx context.Context) error { return f.wait(ctx, false) }

// Try is Wait for those who can do with what was read before. When a file has not
// answered for Patience, whoever comes waits no longer: the error is ErrSlow then.
func (f *Files) Try(ctx context.Context) error { return f.wait(ctx, true) }

// Again is Try for those who know that what was read is of no use. A reading that began before
// they came may bring the same: another one follows it.
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

// await waits until a run has ended. The error says why it waits no longer.
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

// join returns the run that is under way, or begins one.
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

// run reads all files. It ends also where the reader, or the logger that take uses, panics or
// calls runtime.Goexit.
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
			contents, err = nil, fmt.Errorf("%s: %w", file.What, err) // which names the path
			break
		}
	}
	r.err = failure.Apart("the use of what was read", func() error { return f.take(contents, err) })
	f.mu.Lock()
	f.running = nil
	f.mu.Unlock()
	close(r.done)
}

// at returns the file that is read now.
func (f *Files) at(r *run) File {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.files) == 0 {
		return File{}
	}
	return f.files[r.at]
}

// complain logs that a file does not answer, once for each run.
func (f *Files) complain(r *run) {
	f.mu.Lock()
	told := r.told
	r.told = true
	f.mu.Unlock()
	if !told {
		f.log.Warn("a file does not answer when it is read: check the file system that it is on", "file", f.at(r).String(), "after", Patience)
	}
}

func (f *Files) stuck(r *run, reason error) error {
	return &source.StuckError{What: f.at(r).String(), For: time.Since(r.began), Err: reason}
}

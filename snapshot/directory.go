package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"
)

// Options configure a Directory. The zero value works.
type Options struct {
	// Interval is the least time between two writings of one file, a tenth more or less.
	// A file is at most that much older than what its informer had when the process was
	// killed. Default 5 min.
	Interval time.Duration

	// MaxAge is how old a file may be that is read. Default 24 h.
	MaxAge time.Duration

	// Secrets has Secrets written too, as any process of the same user can read them.
	// By default an informer of Secrets has no snapshot, nor has one whose name, kind or Go
	// type contains "secret".
	Secrets bool
}

func (o Options) withDefaults() Options {
	if o.Interval <= 0 {
		o.Interval = 5 * time.Minute
	}
	if o.MaxAge <= 0 {
		o.MaxAge = 24 * time.Hour
	}
	return o
}

// Directory is where the informers of a process have their snapshots. It may be given to
// several factories. Make it with In.
type Directory struct {
	path string
	opts Options

	create func(dir, pattern string) (file, error)
	turn   chan struct{} // holds a token while nobody writes

	mu      sync.Mutex // guards the rest
	users   int
	locked  *os.File  // nil while the directory is not locked
	cleaned time.Time // when clean was called last
}

// file is what is written.
type file interface {
	io.WriteCloser
	Name() string
	Sync() error
}

// In returns the directory at a path. It is made, for its owner alone, when something is
// written into it. Nothing is done yet, so that nothing can fail.
func In(path string, opts Options) *Directory {
	d := &Directory{path: path, opts: opts.withDefaults(), turn: make(chan struct{}, 1)}
	d.create = func(dir, pattern string) (file, error) { return os.CreateTemp(dir, pattern) } // of mode 0600
	d.turn <- struct{}{}
	return d
}

// Path returns the path given to In.
func (d *Directory) Path() string { return d.path }

// Options returns those given to In, and the defaults.
func (d *Directory) Options() Options { return d.opts }

// Use keeps the directory for this process, from the first writing on, until done is called,
// by the last that uses it.
func (d *Directory) Use() (done func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.users++
	return sync.OnceFunc(d.leave)
}

func (d *Directory) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.users--; d.users == 0 && d.locked != nil {
		d.locked.Close()
		d.locked = nil
	}
}

// Read returns the snapshot that is wanted. It fails with an *Error, which wraps
// fs.ErrNotExist where there is none. The Cluster of the label is not compared.
func (d *Directory) Read(want Label) (*File, error) {
	f, err := open(filepath.Join(d.path, want.name()), own)
	if err != nil {
		return nil, err
	}
	if differs := f.differs(&want); differs != "" {
		return nil, &Error{f.Path, fmt.Errorf("%w: %s", ErrForeign, differs)}
	}
	if age, when := distance(f.Written); age > d.opts.MaxAge {
		return nil, &Error{f.Path, fmt.Errorf("%w: it was written %s %s, and %s is allowed", ErrOld, age.Round(time.Second), when, d.opts.MaxAge)}
	}
	return f, nil
}

// distance returns how far a time is from now. A clock that was ahead gives files a time in the
// future, where they would never get too old.
func distance(t time.Time) (d time.Duration, when string) {
	if d = time.Since(t); d < 0 {
		return -d, "in the future"
	}
	return d, "ago"
}

// Has reports whether there is a file in the place of a snapshot. It is not read.
func (d *Directory) Has(l Label) bool {
	_, err := os.Lstat(filepath.Join(d.path, l.name()))
	return !errors.Is(err, fs.ErrNotExist)
}

// Write puts a snapshot in the place of the one before. Fill writes its content. Write waits
// until nobody else writes, or ctx is done. It returns the size of the file, or fails with an
// *Error, and then leaves the one before where it was.
func (d *Directory) Write(ctx context.Context, l Label, fill func(*Writer) error) (size int64, err error) {
	err = d.inTurn(ctx, func() (err error) {
		name := filepath.Join(d.path, l.name())
		if size, err = d.write(name, l, fill); err != nil {
			return &Error{name, err}
		}
		return nil
	})
	return size, err
}

// Remove takes a snapshot away, if it is there, which has turned out to be wrong. It waits as
// Write does, and fails with an *Error.
func (d *Directory) Remove(ctx context.Context, l Label) error {
	if !d.Has(l) {
		return nil
	}
	name := filepath.Join(d.path, l.name())
	return d.inTurn(ctx, func() error {
		if err := ignore(os.Remove(name), fs.ErrNotExist); err != nil {
			return &Error{name, err}
		}
		return nil
	})
}

// inTurn calls change when nobody else changes the directory, which is this process's then.
func (d *Directory) inTurn(ctx context.Context, change func() error) error {
	select {
	case <-d.turn:
	case <-ctx.Done():
		return &Error{d.path, context.Cause(ctx)}
	}
	defer func() { d.turn <- struct{}{} }()
	defer d.Use()()
	if err := d.claim(); err != nil {
		return &Error{d.path, err}
	}
	return change()
}

func (d *Directory) write(name string, l Label, fill func(*Writer) error) (size int64, err error) {
	f, err := d.create(d.path, filepath.Base(name)+temporary+"*")
	if err != nil {
		return 0, err
	}
	defer func() { // also if fill does not return
		err = errors.Join(err, ignore(f.Close(), fs.ErrClosed), ignore(os.Remove(f.Name()), fs.ErrNotExist))
	}()
	w := newWriter(f)
	err = w.begin(&l)
	if err == nil {
		err = fill(w)
	}
	if err == nil {
		err = w.end()
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	return w.size, err
}

// temporary is in the names of files that are not whole yet.
const temporary = ".new-"

// ours are the names that files have here, whole ones and others.
var ours = regexp.MustCompile(`^[a-z0-9.-]*-[0-9a-f]{16}[.]snapshot([.]new-[0-9]+)?$`)

// claim makes the directory and locks it, if that has not been done, or somebody has removed
// it since. What a process that was killed has left there goes, and so does what has become
// too old since then: nobody writes the file of a transform that is another one now.
func (d *Directory) claim() (err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	name := filepath.Join(d.path, "lock")
	if d.locked != nil {
		mine, _ := d.locked.Stat()
		if there, err := os.Lstat(name); err == nil && os.SameFile(mine, there) {
			if time.Since(d.cleaned) < cleanEvery {
				return nil
			}
			return d.clean()
		}
		d.locked.Close()
		d.locked = nil
	}
	if err := os.MkdirAll(d.path, 0o700); err != nil {
		return err
	}
	if d.locked, err = lock(name); err != nil {
		return err
	}
	return d.clean()
}

// cleanEvery is how often a process that writes looks for what nobody would read any more.
const cleanEvery = time.Hour

// clean removes what was never finished, and what nobody would read any more.
func (d *Directory) clean() error {
	d.cleaned = time.Now()
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := ours.FindStringSubmatch(e.Name())
		if e.IsDir() || name == nil {
			continue
		}
		goes := name[1] != ""
		if info, err := e.Info(); err == nil && !goes {
			goes = time.Since(info.ModTime()) > d.opts.MaxAge // not one of the future: a test may have a clock of its own
		}
		if goes {
			if err := ignore(os.Remove(filepath.Join(d.path, e.Name())), fs.ErrNotExist); err != nil {
				return err
			}
		}
	}
	return nil
}

func ignore(err, harmless error) error {
	if errors.Is(err, harmless) {
		return nil
	}
	return err
}

// Errors of a snapshot.
var (
	// ErrDamaged: the file was cut off or changed, or is none that this package wrote.
	ErrDamaged = errors.New("the file is damaged")
	// ErrNotFile: the path leads to no regular file, but a directory, a link, a pipe or a device.
	ErrNotFile = errors.New("what is there is no regular file and has to be removed")
	// ErrForeign: the file is of other objects than those that are wanted.
	ErrForeign = errors.New("the file is of something else")
	// ErrOld: the file is older than Options.MaxAge.
	ErrOld = errors.New("the file is too old")
	// ErrNotOwn: the file belongs to another user, or every user may write it, so that its objects
	// may be anyone's.
	ErrNotOwn = errors.New("the file belongs to another user, or every user may write it")
	// ErrLocked: another process, or another Directory of this one, writes into the directory.
	ErrLocked = errors.New("another process, or another Directory of this one, writes into this directory: give each its own")
)

// Error says what could not be done with which file or directory.
type Error struct {
	Path string
	Err  error
}

// Error names the path and the reason.
func (e *Error) Error() string { return "snapshot " + e.Path + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

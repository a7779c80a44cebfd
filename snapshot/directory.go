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
	// Interval is the minimum time between two writes of a file, varied by a tenth. After a crash,
	// a file is at most that much older than the cache was. The default is 5 min.
	Interval time.Duration

	// MaxAge is the maximum age of a file to be read. The default is 24 h.
	MaxAge time.Duration

	// Secrets allows Secrets to be written; any process of the same user can read them. By default,
	// informers of Secrets have no snapshot. Neither do informers whose name, kind or Go type contains
	// "secret".
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

// Directory holds the snapshots of a process's informers. Several factories may share it. Create
// one with [In].
type Directory struct {
	path string
	opts Options

	create func(dir, pattern string) (file, error)
	turn   chan struct{} // holds a token while no write is in progress

	mu      sync.Mutex // guards the rest
	users   int
	locked  *os.File  // nil while the directory is not locked
	cleaned time.Time // when clean last ran
}

// file is a file being written.
type file interface {
	io.WriteCloser
	Name() string
	Sync() error
}

// In returns the directory at a path. The first write creates it with access for its owner only. In
// itself does nothing that could fail.
func In(path string, opts Options) *Directory {
	d := &Directory{path: path, opts: opts.withDefaults(), turn: make(chan struct{}, 1)}
	d.create = func(dir, pattern string) (file, error) { return os.CreateTemp(dir, pattern) } // with mode 0600
	d.turn <- struct{}{}
	return d
}

// Path returns the path given to In.
func (d *Directory) Path() string { return d.path }

// Options returns the options given to In, with defaults.
func (d *Directory) Options() Options { return d.opts }

// Use reserves the directory for this process. The reservation lasts from the first write until the last
// user has called done.
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

// Read returns the snapshot described by want. It fails with an *Error, which wraps fs.ErrNotExist
// if there is none. The Cluster of the label is not compared.
func (d *Directory) Read(want Label) (*File, error) {
	f, err := open(filepath.Join(d.path, want.name()), own)
	if err != nil {
		return nil, err
	}
	if differs := f.differs(&want); differs != "" {
		return nil, &Error{f.Path, fmt.Errorf("%w: %s", ErrForeign, differs)}
	}
	if age, when := distance(f.Written); age > d.opts.MaxAge {
		return nil, &Error{f.Path, fmt.Errorf("%w: it was written %s %s, and the limit is %s", ErrOld, age.Round(time.Second), when, d.opts.MaxAge)}
	}
	return f, nil
}

// distance returns how far t is from now, in either direction. Otherwise a file written while the clock
// was ahead would not expire in time.
func distance(t time.Time) (d time.Duration, when string) {
	if d = time.Since(t); d < 0 {
		return -d, "in the future"
	}
	return d, "ago"
}

// Has reports whether the file of a snapshot exists. It does not read it.
func (d *Directory) Has(l Label) bool {
	_, err := os.Lstat(filepath.Join(d.path, l.name()))
	return !errors.Is(err, fs.ErrNotExist)
}

// Write replaces a snapshot; fill writes its content. Write waits until no other write is in
// progress, or ctx is done. It returns the size of the file. If it fails, with an *Error, the
// previous snapshot is unchanged.
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

// Remove removes a snapshot that turned out to be wrong, if it exists. It waits as Write does, and
// fails with an *Error.
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

// inTurn calls change while no other goroutine and no other process writes to the directory.
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
	defer func() { // even if fill panics or exits
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

// temporary is part of the names of incomplete files.
const temporary = ".new-"

// ours matches the names of files written here, complete or not.
var ours = regexp.MustCompile(`^[a-z0-9.-]*-[0-9a-f]{16}[.]snapshot([.]new-[0-9]+)?$`)

// claim creates and locks the directory, unless that was done and the lock file is still there. It also
// removes files that a killed process left behind, and files that are too old, such as those of a
// transform that has changed since.
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

// cleanEvery is the interval at which a writing process removes unusable files.
const cleanEvery = time.Hour

// clean removes incomplete files and files that are too old to be read.
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
			goes = time.Since(info.ModTime()) > d.opts.MaxAge // a file from the future is kept, because tests may use their own clock
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
	// ErrDamaged means that the file was truncated or changed, or was not written by this package.
	ErrDamaged = errors.New("the file is damaged")
	// ErrNotFile means that the path is not a regular file, but a directory, a link, a pipe or a
	// device.
	ErrNotFile = errors.New("not a regular file")
	// ErrForeign means that the file does not hold the requested objects.
	ErrForeign = errors.New("the file holds other objects")
	// ErrOld means that the file is older than Options.MaxAge.
	ErrOld = errors.New("the file is too old")
	// ErrNotOwn means that the file belongs to another user, or is writable by every user, so its
	// objects cannot be trusted.
	ErrNotOwn = errors.New("the file belongs to another user, or every user may write it")
	// ErrLocked means that another process, or another Directory of this one, writes to the
	// directory.
	ErrLocked = errors.New("another process, or another Directory of this one, writes into this directory: give each its own")
)

// Error is a failed operation on a file or directory.
type Error struct {
	Path string
	Err  error
}

func (e *Error) Error() string { return "snapshot " + e.Path + ": " + e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

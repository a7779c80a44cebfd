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

// Options configures a Directory. The zero value is ready to use.
type Options struct {
	// Interval is the minimum time between two writes of the same file, with 10% jitter. After a crash,
	// the file lags behind the cache by at most this much. The default is 5 minutes.
	Interval time.Duration

	// MaxAge is the age beyond which a file is not read. The default is 24 hours.
	MaxAge time.Duration

	// Secrets allows Secrets to be written to disk, where any process running as the same user can read
	// them. By default, informers for Secrets have no snapshot, and neither do informers whose name,
	// kind or Go type contains "secret".
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

// Directory holds the snapshots of a process's informers. It may be shared by several factories. Create
// one with [In].
type Directory struct {
	path string
	opts Options

	create func(dir, pattern string) (file, error)
	turn   chan struct{} // holds a token while no write is in progress

	mu    sync.Mutex // guards users; held during no file operation, which may hang, except to release the lock
	users int

	// Owned by the user that holds the token of turn, and by leave if there are no users.
	locked  *os.File  // nil while the directory is not locked
	cleaned time.Time // time of the last cleanup
}

// file is a file open for writing.
type file interface {
	io.WriteCloser
	Name() string
	Sync() error
}

// In returns a Directory for the given path. It does not touch the file system: the first write creates
// the directory, accessible only to its owner.
func In(path string, opts Options) *Directory {
	d := &Directory{path: path, opts: opts.withDefaults(), turn: make(chan struct{}, 1)}
	d.create = func(dir, pattern string) (file, error) { return os.CreateTemp(dir, pattern) } // with mode 0600
	d.turn <- struct{}{}
	return d
}

// Path returns the path given to In.
func (d *Directory) Path() string { return d.path }

// Options returns the options given to In, with defaults filled in.
func (d *Directory) Options() Options { return d.opts }

// Use reserves the directory for this process. The reservation takes effect with the first write and
// lasts until every caller of Use has called done.
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

// Read returns the snapshot described by want. It returns an [*Error] on failure, which wraps
// fs.ErrNotExist if there is no such snapshot. Label.Cluster is not compared.
func (d *Directory) Read(want Label) (*File, error) {
	f, err := open(filepath.Join(d.path, want.name()), own)
	if err != nil {
		return nil, err
	}
	if differs := f.differs(&want); differs != "" {
		return nil, &Error{f.Path, fmt.Errorf("%w: %s", ErrForeign, differs)}
	}
	if age, when := distance(f.Written); age > d.opts.MaxAge {
		return nil, &Error{f.Path, fmt.Errorf("%w: written %s %s, limit %s", ErrOld, age.Round(time.Second), when, d.opts.MaxAge)}
	}
	return f, nil
}

// distance returns how far t is from now, in either direction. Files dated in the future must expire
// too, in case the clock was ahead when they were written.
func distance(t time.Time) (d time.Duration, when string) {
	if d = time.Since(t); d < 0 {
		return -d, "in the future"
	}
	return d, "ago"
}

// Has reports whether a snapshot file for l exists. It does not read the file.
func (d *Directory) Has(l Label) bool {
	_, err := os.Lstat(filepath.Join(d.path, l.name()))
	return !errors.Is(err, fs.ErrNotExist)
}

// Write replaces the snapshot for l with the content that fill writes, and returns the size of the file.
// It waits for any other write to finish, or for ctx to be done. On failure it returns an [*Error] and
// leaves the previous snapshot unchanged.
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

// Remove deletes a snapshot that turned out to be invalid, if it exists. Like Write, it waits for other
// writes and returns an [*Error] on failure.
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

// inTurn calls change while holding exclusive write access to the directory, both in this process and
// across processes.
func (d *Directory) inTurn(ctx context.Context, change func() error) error {
	if d.turn == nil {
		return &Error{d.path, errors.New("a zero Directory: create it with snapshot.In")}
	}
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

// temporary is the infix that marks the names of incomplete files.
const temporary = ".new-"

// ours matches the names of files written by this package, complete or not.
var ours = regexp.MustCompile(`^[a-z0-9.-]*-[0-9a-f]{16}[.]snapshot([.]new-[0-9]+)?$`)

// claim creates and locks the directory, unless this process already holds the lock and the lock file
// still exists. It also removes files left behind by a killed process and files that are too old, such
// as those of a transform that has since changed. The caller must hold the token of turn and have called Use.
func (d *Directory) claim() (err error) {
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

// cleanEvery is how often a process that writes snapshots removes unusable files.
const cleanEvery = time.Hour

// clean removes incomplete files and files older than Options.MaxAge.
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
			goes = time.Since(info.ModTime()) > d.opts.MaxAge // keep files dated in the future: tests may use a fake clock
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

// Errors returned for snapshots, wrapped in an [*Error].
var (
	// ErrDamaged means that the file was truncated or changed, or was not written by this package.
	ErrDamaged = errors.New("the file is damaged")
	// ErrNotFile means that the path is not a regular file but a directory, link, pipe or device.
	ErrNotFile = errors.New("not a regular file")
	// ErrForeign means that the file contains objects other than those requested.
	ErrForeign = errors.New("the file contains different objects")
	// ErrOld means that the file is older than Options.MaxAge.
	ErrOld = errors.New("the file is too old")
	// ErrNotOwn means that the file is owned by another user or world-writable, so its contents cannot
	// be trusted.
	ErrNotOwn = errors.New("the file is owned by another user or world-writable")
	// ErrLocked means that another process, or another Directory in this one, is writing to the
	// directory.
	ErrLocked = errors.New("another process, or another Directory in this one, is writing to this directory: give each its own")
)

// Error records a failed operation on a file or directory.
type Error struct {
	Path string
	Err  error
}

func (e *Error) Error() string { return "snapshot " + e.Path + ": " + e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

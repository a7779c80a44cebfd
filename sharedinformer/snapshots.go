package sharedinformer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/indexer"
	"github.com/millrace-dev/millrace/internal/confidential"
	"github.com/millrace-dev/millrace/internal/jitter"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/snapshot"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// SnapshotStatus is how an informer is doing that has Options.Snapshot.
type SnapshotStatus struct {
	Directory string
	Off       string    // why nothing is written and read; empty where it is
	Unused    string    // why the last file that was read was of no use; empty where it was, or where there was none
	Written   time.Time // when the last file was begun; zero before
	Bytes     int64     // of that file

	// Failure is why the server did not say which cluster it is, or else why the last file was not
	// written, or one that is wrong not removed; nil where all is well. Where each namespace has a
	// file, it is that of the first one that fails.
	Failure *failure.Failure
}

// snapshots keep what each feed has in a file, and have a feed begin with what its file has.
// Files are written by one goroutine at a time.
type snapshots struct {
	informer  *core
	directory *snapshot.Directory
	origin    source.Origin
	label     snapshot.Label // what is the same in all files

	clusterFailure atomic.Pointer[failure.Failure] // why the server did not say which cluster it is; nil if it did

	mu             sync.Mutex // guards the rest; taken under core.join
	status         SnapshotStatus
	disabledLogged bool                     // that there are none
	loaded         map[string][]object.Head // by namespace: what was read; nil from the first sync on
	loadedIndex    *indexer.Indexer
	saved          map[*feed]string    // up to where the file of each is complete
	invalid        map[*feed]bool      // whose file, if there is one, is to go; true: and so is what is being written
	hadFiles       map[string]struct{} // the namespaces that may have files
	rolledBackAt   time.Time           // when the server's history was last found to have gone back; zero if never

	wake chan struct{} // holds a token: there is something wrong
}

// newSnapshots returns the snapshots of an informer, nil where they are not wanted.
func newSnapshots(i *core, opts Options) *snapshots {
	if opts.Snapshot == nil {
		return nil
	}
	s := &snapshots{informer: i, directory: opts.Snapshot, loaded: make(map[string][]object.Head), saved: make(map[*feed]string), invalid: make(map[*feed]bool), hadFiles: make(map[string]struct{}), wake: make(chan struct{}, 1)}
	var origin source.Origin
	traced := false
	if i.from.Origin != nil {
		origin, traced = i.from.Origin()
	}
	s.origin = origin
	s.label = snapshot.Label{Server: origin.Server, Kind: origin.Kind, Scope: origin.Scope, Keep: origin.Keep, Transform: opts.TransformVersion}
	if origin.Type != nil {
		s.label.Type, s.label.Shape = origin.Type.String(), wire.TypeFingerprint(origin.Type)
	}
	if opts.LabelSelector != nil {
		s.label.Labels = opts.LabelSelector.String()
	}
	if opts.FieldSelector != nil {
		s.label.Fields = opts.FieldSelector.String()
	}
	s.status.Directory = opts.Snapshot.Path()
	switch {
	case i.ownership != nil:
		s.status.Off = "the informer has a share of the objects, and another one when it starts again"
	case traced && origin.Type != nil && !origin.Type.AssignableTo(i.goType):
		s.status.Off = fmt.Sprintf("the source reads objects of type %v, and the informer is one of %v", origin.Type, i.goType)
	case !traced || origin.Cluster == nil || origin.Type == nil:
		s.status.Off = "the source does not say whose objects it reads: its Description has no Origin"
	case i.from.Altered && opts.TransformVersion == "":
		s.status.Off = "the objects go through a transform, and nobody can tell whether it is still the same: set TransformVersion"
	case (confidential.Named(i.Name(), origin.Kind.Kind) || confidential.Type(origin.Type)) && !opts.Snapshot.Options().Secrets:
		s.status.Off = "Secrets are written only if snapshot.Options.Secrets says so"
	}
	return s
}

// disabled reports whether there are no snapshots, and says why, once.
func (s *snapshots) disabled() bool {
	s.mu.Lock()
	why, told := s.status.Off, s.disabledLogged
	s.disabledLogged = true
	s.mu.Unlock()
	if why != "" && !told {
		s.informer.logger.Warn("the informer has no snapshot", "resource", s.informer.Name(), "cause", why)
	}
	return why != ""
}

// restore has the first run of a feed begin with its file, if that is of use. What is wrong
// with it is said in one line.
func (s *snapshots) restore(f *feed) {
	if f.restored || s.disabled() {
		return
	}
	f.restored = true
	s.mu.Lock()
	s.hadFiles[f.namespace] = struct{}{}
	s.mu.Unlock()
	items, file, err := s.read(f)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.informer.logger.Debug("no snapshot yet", "resource", f.reflector.Name(), "err", err)
		return
	case err != nil:
		s.mu.Lock()
		s.status.Unused = err.Error()
		s.mu.Unlock()
		s.informer.logger.Warn("the snapshot is of no use, listing", "resource", f.reflector.Name(), "err", err)
		return
	}
	s.mu.Lock()
	if s.loaded != nil {
		s.loaded[f.namespace], s.loadedIndex = items, nil
	}
	s.saved[f] = file.RV
	s.mu.Unlock()
	path, cluster := file.Path, file.Cluster
	f.reflector.Resume(reflector.SavedState{Items: items, RV: file.RV, Refuse: func(why error) { s.invalidate(f, errors.Is(why, reflector.ErrWentBack)) }, Confirm: func(ctx context.Context) error {
		switch now, err := s.cluster(ctx, clusterTimeout); {
		case err != nil:
			return err
		case now != cluster:
			return fmt.Errorf("snapshot %s: %w: %q, and the server's is %q", path, reflector.ErrForeign, cluster, now)
		}
		return nil
	}})
}

func (s *snapshots) read(f *feed) ([]object.Head, *snapshot.File, error) {
	want := s.labelOf(f)
	file, err := s.directory.Read(want)
	if err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	lost := s.rolledBackAt
	s.mu.Unlock()
	if file.Written.Before(lost) {
		return nil, nil, &snapshot.Error{Path: file.Path, Err: fmt.Errorf("since it was written, %w", reflector.ErrWentBack)}
	}
	var items []object.Head
	err = failure.Apart("reading a "+s.label.Type, func() (err error) { // which may call methods of the user's
		items, err = s.informer.readObjects(file.Content, file.Objects, s.origin.Type)
		return err
	})
	if err != nil {
		return nil, nil, &snapshot.Error{Path: file.Path, Err: fmt.Errorf("%w: %w", snapshot.ErrDamaged, err)}
	}
	file.Content = nil
	return items, file, nil
}

// invalidate has the file of a feed removed, because the server contradicts it, or knows nothing of
// its time any more. Later it may no longer be able to tell. Where its history went back, the
// files of all namespaces go that the informer has, or has had: they are of the lost history too.
func (s *snapshots) invalidate(f *feed, wentBack bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wrong := []*feed{f}
	if wentBack {
		s.rolledBackAt = time.Now()
		wrong = s.informer.feeds.all()
		for namespace := range s.hadFiles {
			if !slices.ContainsFunc(wrong, func(f *feed) bool { return f.namespace == namespace }) {
				wrong = append(wrong[:len(wrong):len(wrong)], &feed{namespace: namespace}) // of which there is only the file
				delete(s.hadFiles, namespace)
			}
		}
	}
	for _, f := range wrong {
		delete(s.saved, f)
		s.invalid[f] = true
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// noteList is called when a whole set has come from a feed. newHistory means that the history may
// have gone back, and the file be of the other one; again, that there was a set before, so that it has.
// It is called under join.
func (s *snapshots) noteList(f *feed, newHistory, again bool) {
	resumed := f.reflector.Status().Resumed
	if newHistory && !resumed {
		s.invalidate(f, again)
	}
	if !resumed {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.saved, f)
	}
}

// removeInvalid removes the files that are wrong. One that cannot be removed is tried again.
func (s *snapshots) removeInvalid(ctx context.Context) {
	s.mu.Lock()
	wrong := slices.Collect(maps.Keys(s.invalid))
	s.mu.Unlock()
	for _, f := range wrong {
		if err := s.directory.Remove(ctx, s.labelOf(f)); err != nil {
			s.note(ctx, &f.unremoved, err)
			continue
		}
		f.unremoved.Store(nil)
		s.mu.Lock()
		delete(s.invalid, f)
		delete(s.saved, f)
		s.mu.Unlock()
	}
}

// firstSaveParts: the first file is written within this part of the interval.
const firstSaveParts = 5

// run writes files until ctx is done.
func (s *snapshots) run(ctx context.Context) {
	if s.disabled() {
		return
	}
	interval := s.directory.Options().Interval
	due := time.Now().Add(jitter.Below(interval / firstSaveParts))
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	for {
		select {
		case <-s.wake:
			if sooner := time.Now().Add(jitter.Below(interval / firstSaveParts)); sooner.Before(due) {
				due = sooner
			}
		case <-timer.C:
			due = time.Now().Add(jitter.Around(interval))
			s.removeInvalid(ctx)
			s.save(ctx, clusterTimeout)
		case <-ctx.Done():
			return
		}
		s.removeInvalid(ctx) // also what turned out to be wrong while it was written
		timer.Reset(time.Until(due))
	}
}

const (
	// clusterTimeout is how long the server may take to say which cluster it is.
	clusterTimeout = 30 * time.Second

	// lastClusterTimeout is the same during a stop, of which the server need not know. As a rule it
	// has been asked before.
	lastClusterTimeout = time.Second

	// lastSaveTimeout is how long a stop may wait for the disk to take the last files.
	lastSaveTimeout = 10 * time.Second
)

// errClusterUnknown: the server did not say which cluster it is, and says it of no other file either.
var errClusterUnknown = errors.New("ask which cluster this is")

// errSaveTimeout: the disk did not take the last files in time.
var errSaveTimeout = fmt.Errorf("the stop waits for it no longer than %v", lastSaveTimeout)

// saveLast writes what the run that ends has changed.
func (s *snapshots) saveLast(ctx context.Context) {
	if s.disabled() || s.informer.broken.Load() != nil {
		return
	}
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), lastSaveTimeout, errSaveTimeout)
	defer cancel()
	s.removeInvalid(ctx)
	s.save(ctx, lastClusterTimeout)
}

// save writes the file of each feed that has something new. The server may be asked for as
// long as patience.
func (s *snapshots) save(ctx context.Context, patience time.Duration) {
	feeds := s.informer.feeds.all()
	s.mu.Lock()
	maps.DeleteFunc(s.saved, func(f *feed, _ string) bool { return !slices.Contains(feeds, f) })
	s.mu.Unlock()
	for _, f := range feeds {
		err := failure.Apart("writing a "+s.label.Type, func() error { return s.saveFeed(ctx, f, patience) }) // a method of an object may panic
		if err == nil {
			continue
		}
		unknown := errors.Is(err, errClusterUnknown)
		if unknown {
			s.note(ctx, &s.clusterFailure, err)
		} else {
			s.note(ctx, &f.unsaved, err)
		}
		if ctx.Err() != nil || unknown {
			return
		}
	}
}

// note reports why something could not be done, and keeps it in first: the others of a series
// are not told of. That ctx was done is no reason, unless it is the one of last.
func (s *snapshots) note(ctx context.Context, first *atomic.Pointer[failure.Failure], err error) {
	if first.Load() == nil && (ctx.Err() == nil || context.Cause(ctx) == errSaveTimeout) {
		f := s.informer.completeFailure(&failure.Failure{Phase: failure.PhaseSnapshot, Err: err})
		first.Store(f)
		s.informer.report(context.Background(), nil, f)
	}
}

func (s *snapshots) saveFeed(ctx context.Context, f *feed, patience time.Duration) error {
	s.mu.Lock()
	if s.invalid[f] {
		s.invalid[f] = false // what is read now is right
	}
	s.mu.Unlock()
	objects, rv := s.informer.contentOf(f)
	if rv == "" || f.reflector.Status().Unordered {
		return nil
	}
	label := s.labelOf(f)
	s.mu.Lock()
	saved := s.saved[f]
	s.mu.Unlock()
	if rv == saved && s.directory.Has(label) {
		return nil
	}
	cluster, err := s.cluster(ctx, patience)
	if err != nil {
		return err
	}
	label.Cluster = cluster
	label.RV, label.Objects, label.Written = rv, objects.Len(), time.Now()
	size, err := s.directory.Write(ctx, label, func(w *snapshot.Writer) error { return writeObjects(ctx, objects, w) })
	if err != nil {
		return err
	}
	s.informer.logger.Log(ctx, slog.LevelDebug, "snapshot written", "resource", f.reflector.Name(), "rv", rv, "objects", label.Objects, "bytes", size)
	s.mu.Lock()
	defer s.mu.Unlock()
	f.unsaved.Store(nil)
	if again, wrong := s.invalid[f]; wrong && !again { // the file that was to go has been replaced
		delete(s.invalid, f)
		f.unremoved.Store(nil)
	}
	s.saved[f] = rv
	s.status.Written, s.status.Bytes = label.Written, size
	return nil
}

// cluster asks the server which one it is.
func (s *snapshots) cluster(ctx context.Context, patience time.Duration) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer in %v", patience))
	defer cancel()
	cluster, err := s.origin.Cluster(ctx)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errClusterUnknown, err)
	}
	s.clusterFailure.Store(nil)
	return cluster, nil
}

// labelOf returns what a feed is of.
func (s *snapshots) labelOf(f *feed) snapshot.Label {
	l := s.label
	l.Namespace = f.namespace
	return l
}

// stale returns what was read from files, until the first sync, and the cache from then on.
func (i *core) stale() *indexer.Indexer {
	if stale := i.snapshots.stale(); stale != nil {
		return stale
	}
	return i.cache
}

// stale returns what was read from files, until the first sync, and nil from then on.
func (s *snapshots) stale() *indexer.Indexer {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loadedIndex == nil && s.loaded != nil {
		s.loadedIndex = indexer.New()
		s.loadedIndex.Write(func(w indexer.Writer) {
			for namespace, items := range s.loaded {
				w.Replace(namespace, items, func(indexer.Change) {})
			}
		})
	}
	return s.loadedIndex
}

// dropLoaded drops the objects that were read from files. It is called when the informer becomes synced,
// under join.
func (s *snapshots) dropLoaded() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loaded, s.loadedIndex = nil, nil
}

// current returns the status.
func (s *snapshots) current() *SnapshotStatus {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	status := s.status
	status.Failure = s.clusterFailure.Load()
	for _, f := range s.informer.feeds.all() {
		status.Failure = cmp.Or(status.Failure, f.unsaved.Load(), f.unremoved.Load())
	}
	return &status
}

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
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

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

// SnapshotStatus is the state of an informer's snapshots.
type SnapshotStatus struct {
	Directory string
	Off       string    // why snapshots are disabled; empty if they are not
	Unused    string    // why the last file read was rejected, perhaps by the server; empty if it was used or did not exist
	Written   time.Time // when writing the last file started; zero if none was written
	Bytes     int64     // size of that file

	// Failure says that writing hangs or, if it does not, is the error from identifying the server's cluster or,
	// if there is none, from writing the last file or removing an invalid one. It is nil if there is no problem.
	// If each namespace has its own file, it is the first of their failures.
	Failure *failure.Failure
}

// snapshots writes each feed's objects to a file, from which the feed can start. Files are written by only
// one goroutine at a time. File operations may hang, so no feed and no stop of the informer waits for them
// without a limit.
type snapshots struct {
	informer  *core
	directory *snapshot.Directory
	open      func(snapshot.Label) (*snapshot.File, error) // directory.Read
	origin    source.Origin
	label     snapshot.Label // the fields common to all labels

	clusterFailure atomic.Pointer[failure.Failure] // the reason the server did not identify its cluster; nil if it did

	idle    chan struct{}                   // holds a token while no goroutine changes files
	hanging atomic.Pointer[failure.Failure] // files have been changed for too long; nil if they have not

	mu             sync.Mutex // guards the fields below; locked while holding core.join
	status         SnapshotStatus
	disabledLogged bool                     // it was logged that snapshots are disabled
	loaded         map[string][]object.Head // objects read from files, by namespace; nil after the first sync
	loadedIndex    *indexer.Indexer
	saved          map[*feed]string    // version of each file
	invalid        map[*feed]bool      // feeds whose file must be removed; true if this includes a file being written now
	hadFiles       map[string]struct{} // namespaces that may have files
	rolledBackAt   time.Time           // when the server's history was last rolled back; zero if never

	wake chan struct{} // holds a token if there is an invalid file
}

// newSnapshots returns the snapshots of an informer, or nil if Options.Snapshot is not set.
func newSnapshots(i *core, opts Options) *snapshots {
	if opts.Snapshot == nil {
		return nil
	}
	s := &snapshots{informer: i, directory: opts.Snapshot, open: opts.Snapshot.Read, idle: make(chan struct{}, 1), loaded: make(map[string][]object.Head), saved: make(map[*feed]string), invalid: make(map[*feed]bool), hadFiles: make(map[string]struct{}), wake: make(chan struct{}, 1)}
	s.idle <- struct{}{}
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
	case opts.Snapshot.Options().Interval == 0:
		s.status.Off = "a zero Directory: create it with snapshot.In"
	case i.ownership != nil:
		s.status.Off = "the informer is sharded, and its share may be different after a restart"
	case traced && origin.Type != nil && !origin.Type.AssignableTo(i.goType):
		s.status.Off = fmt.Sprintf("the source reads objects of type %v, but the informer needs %v", origin.Type, i.goType)
	case !traced || origin.Cluster == nil || origin.Type == nil:
		s.status.Off = "the objects' origin is unknown: the source's Description has no Origin"
	case i.from.Altered && opts.TransformVersion == "":
		s.status.Off = "the objects go through a transform of unknown version: set TransformVersion"
	case (confidential.Named(i.Name(), origin.Kind.Kind) || confidential.Type(origin.Type)) && !opts.Snapshot.Options().Secrets:
		s.status.Off = "Secrets are written only if snapshot.Options.Secrets is set"
	}
	return s
}

// disabled reports whether snapshots are disabled, and logs the reason once.
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

// restore makes a feed's first run start from its file if the file is usable. Otherwise it logs the reason.
func (s *snapshots) restore(ctx context.Context, f *feed) {
	if f.restored || s.disabled() {
		return
	}
	f.restored = true
	s.mu.Lock()
	s.hadFiles[f.namespace] = struct{}{}
	s.mu.Unlock()
	items, file, err := s.read(ctx, f)
	switch {
	case ctx.Err() != nil:
		f.restored = false
		return
	case errors.Is(err, fs.ErrNotExist):
		s.setUnused(nil)
		s.informer.logger.Debug("no snapshot yet", "resource", f.reflector.Name(), "err", err)
		return
	case err != nil:
		s.setUnused(err)
		s.informer.logger.Warn("snapshot rejected, listing", "resource", f.reflector.Name(), "err", err)
		return
	}
	s.mu.Lock()
	if s.loaded != nil {
		s.loaded[f.namespace], s.loadedIndex = items, nil
	}
	s.saved[f] = file.RV
	s.mu.Unlock()
	s.setUnused(nil)
	path, cluster := file.Path, file.Cluster
	refuse := func(why error) {
		s.setUnused(why)
		s.invalidate(f, errors.Is(why, reflector.ErrWentBack))
	}
	f.reflector.Resume(reflector.SavedState{Items: items, RV: file.RV, Refuse: refuse, Confirm: func(ctx context.Context) error {
		switch now, err := s.cluster(ctx, clusterTimeout); {
		case err != nil:
			return err
		case now != cluster:
			return fmt.Errorf("snapshot %s: %w: %q, and the server's is %q", path, reflector.ErrForeign, cluster, now)
		}
		return nil
	}})
}

// setUnused records why the last file read was rejected, or nil if it was not.
func (s *snapshots) setUnused(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status.Unused = ""; why != nil {
		s.status.Unused = why.Error()
	}
}

// readTimeout is how long reading a file may take. After that, a list is probably faster.
const readTimeout = 10 * time.Second

// errReadTimeout means that a file was not read in time.
var errReadTimeout = fmt.Errorf("not read within %v: check its file system", readTimeout)

func (s *snapshots) read(ctx context.Context, f *feed) ([]object.Head, *snapshot.File, error) {
	want := s.labelOf(f)
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var file *snapshot.File
	var err error
	if !onDisk(ctx, func() { file, err = s.open(want) }, func() {}) {
		return nil, nil, &snapshot.Error{Path: s.directory.Path(), Err: errReadTimeout}
	}
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
	err = failure.Apart("reading a "+s.label.Type, func() (err error) { // may call methods on the user's types
		items, err = s.informer.readObjects(file.Content, file.Objects, s.origin.Type)
		return err
	})
	if err != nil {
		return nil, nil, &snapshot.Error{Path: file.Path, Err: fmt.Errorf("%w: %w", snapshot.ErrDamaged, err)}
	}
	file.Content = nil
	return items, file, nil
}

// invalidate schedules the removal of a feed's file because the server contradicts it or no longer has the
// changes since then. It must not be delayed, because later the server may no longer be able to tell that the
// file is invalid. If the server's history was rolled back, it also invalidates the files for all of the
// informer's current and former namespaces, which belong to the lost history too.
func (s *snapshots) invalidate(f *feed, wentBack bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wrong := []*feed{f}
	if wentBack {
		s.rolledBackAt = time.Now()
		wrong = s.informer.feeds.all()
		for namespace := range s.hadFiles {
			if !slices.ContainsFunc(wrong, func(f *feed) bool { return f.namespace == namespace }) {
				wrong = append(wrong[:len(wrong):len(wrong)], &feed{namespace: namespace}) // there is a file but no feed
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

// noteRollback is called when a feed's reflector finds that the server's history was rolled back. Until its next
// list is applied, which may take long, the feed's objects belong to the lost history and must not be written.
func (s *snapshots) noteRollback(f *feed) {
	f.lost.Store(true)
	s.invalidate(f, true)
}

// noteList is called after one of a feed's lists was applied; the caller must hold join. newHistory means
// that the server's history may have been rolled back, so the file may belong to the lost history. again
// means that the feed had a list before, so the history was in fact rolled back.
func (s *snapshots) noteList(f *feed, newHistory, again bool) {
	resumed := f.reflector.Status().Resumed
	if newHistory {
		f.lost.Store(false)
	}
	if newHistory && !resumed {
		s.invalidate(f, again)
	}
	if !resumed {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.saved, f)
	}
}

// removeInvalid removes the invalid files. Failed removals are retried later.
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

// The first file is written within 1/firstSaveParts of the interval.
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
		saves := false
		select {
		case <-s.wake:
			if sooner := time.Now().Add(jitter.Below(interval / firstSaveParts)); sooner.Before(due) {
				due = sooner
			}
		case <-timer.C:
			due = time.Now().Add(jitter.Around(interval))
			saves = true
		case <-ctx.Done():
			return
		}
		s.change(ctx, func() {
			s.removeInvalid(ctx)
			if saves {
				s.save(ctx, clusterTimeout)
				s.removeInvalid(ctx) // including files invalidated while being written
			}
		})
		timer.Reset(time.Until(due))
	}
}

const (
	// slowChange is how long files may be changed before that is a failure.
	slowChange = 5 * time.Minute

	// stopGrace is how long to wait for a file operation once its context is done.
	stopGrace = time.Second
)

// errHangs means that changing files takes too long.
var errHangs = fmt.Errorf("not finished after %v: check the file system", slowChange)

// change calls use, which changes files, and reports whether it has returned. It waits until no other goroutine
// changes files.
func (s *snapshots) change(ctx context.Context, use func()) (returned bool) {
	select {
	case <-s.idle:
	case <-ctx.Done():
		return false
	}
	done := s.directory.Use() // also while use is abandoned
	returned = onDisk(ctx, func() {
		defer func() { done(); s.idle <- struct{}{} }()
		use()
	}, func() { s.note(ctx, &s.hanging, &snapshot.Error{Path: s.directory.Path(), Err: errHangs}) })
	if returned {
		s.hanging.Store(nil)
	}
	return returned
}

// onDisk calls use in another goroutine, and late once that has taken slowChange. It reports whether use has
// returned. A file operation that hangs cannot be canceled, so the goroutine is abandoned soon after ctx is done.
func onDisk(ctx context.Context, use, late func()) (returned bool) {
	done := make(chan struct{})
	go func() { defer close(done); use() }()
	slow := time.NewTimer(slowChange)
	defer slow.Stop()
	for {
		select {
		case <-done:
			return true
		case <-slow.C:
			late()
		case <-ctx.Done():
			grace := time.NewTimer(stopGrace)
			defer grace.Stop()
			select {
			case <-done:
				return true
			case <-grace.C:
				return false
			}
		}
	}
}

const (
	// clusterTimeout is how long the server may take to identify its cluster.
	clusterTimeout = 30 * time.Second

	// lastClusterTimeout replaces clusterTimeout during shutdown. It is shorter because the server has
	// usually responded before.
	lastClusterTimeout = time.Second

	// lastSaveTimeout is how long shutdown may wait for the last files to be written.
	lastSaveTimeout = 10 * time.Second
)

// errClusterUnknown means that the server did not identify its cluster, so the remaining files cannot be
// written either.
var errClusterUnknown = errors.New("identify the cluster")

// errSaveTimeout means that the last files were not written in time.
var errSaveTimeout = fmt.Errorf("not finished within %v of stopping", lastSaveTimeout)

// saveLast saves changed caches once more at the end of a run. If the file system hangs, it returns after
// lastSaveTimeout and leaves a goroutine behind.
func (s *snapshots) saveLast(ctx context.Context) {
	if s.disabled() || s.informer.broken.Load() != nil {
		return
	}
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), lastSaveTimeout, errSaveTimeout)
	defer cancel()
	finished := s.change(ctx, func() {
		s.removeInvalid(ctx)
		s.save(ctx, lastClusterTimeout)
		s.removeInvalid(ctx) // including files that saving found to be invalid
	})
	if !finished {
		s.note(ctx, &s.hanging, &snapshot.Error{Path: s.directory.Path(), Err: errSaveTimeout})
	}
}

// save writes a file for each feed that has changed. patience limits how long the server may take to identify
// its cluster.
func (s *snapshots) save(ctx context.Context, patience time.Duration) {
	feeds := s.informer.feeds.all()
	s.mu.Lock()
	maps.DeleteFunc(s.saved, func(f *feed, _ string) bool { return !slices.Contains(feeds, f) })
	s.mu.Unlock()
	for _, f := range feeds {
		err := failure.Apart("writing a "+s.label.Type, func() error { return s.saveFeed(ctx, f, patience) }) // an object's methods may panic
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

// note stores an error in last, and reports it unless it repeats the failure there. The error is ignored if ctx is
// done, unless the cause is errSaveTimeout.
func (s *snapshots) note(ctx context.Context, last *atomic.Pointer[failure.Failure], err error) {
	if ctx.Err() != nil && context.Cause(ctx) != errSaveTimeout {
		return
	}
	before := last.Load()
	f := &failure.Failure{Phase: failure.PhaseSnapshot, Err: err}
	if before != nil {
		f.Attempts, f.Since = before.Attempts, before.Since
	}
	last.Store(s.informer.completeFailure(f))
	if before == nil || withoutDigits(before.Err) != withoutDigits(err) {
		s.informer.report(context.Background(), nil, f)
	}
}

// withoutDigits returns an error's message without digits, because the messages of one cause may contain different
// ports, times and names of temporary files.
func withoutDigits(err error) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, err.Error())
}

func (s *snapshots) saveFeed(ctx context.Context, f *feed, patience time.Duration) error {
	unordered := f.reflector.Status().Unordered
	s.mu.Lock()
	if unordered { // no version says which changes a file includes, not even that of an earlier file
		s.invalid[f] = true
	} else if s.invalid[f] {
		s.invalid[f] = false // objects read from now on are valid
	}
	s.mu.Unlock()
	objects, rv := s.informer.contentOf(f)
	if rv == "" || unordered {
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
	if again, wrong := s.invalid[f]; wrong && !again { // the invalid file was replaced
		delete(s.invalid, f)
		f.unremoved.Store(nil)
	}
	s.saved[f] = rv
	s.status.Written, s.status.Bytes = label.Written, size
	return nil
}

// cluster asks the server to identify its cluster.
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

// labelOf returns the label for a feed's file.
func (s *snapshots) labelOf(f *feed) snapshot.Label {
	l := s.label
	l.Namespace = f.namespace
	return l
}

// stale returns an index of the objects read from files until the first sync, and the cache afterwards.
func (i *core) stale() *indexer.Indexer {
	if stale := i.snapshots.stale(); stale != nil {
		return stale
	}
	return i.cache
}

// stale returns an index of the objects read from files until the first sync, and nil afterwards.
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

// dropLoaded drops the objects read from files once the informer is synced. The caller must hold join.
func (s *snapshots) dropLoaded() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loaded, s.loadedIndex = nil, nil
}

func (s *snapshots) current() *SnapshotStatus {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	status := s.status
	status.Failure = cmp.Or(s.hanging.Load(), s.clusterFailure.Load())
	for _, f := range s.informer.feeds.all() {
		status.Failure = cmp.Or(status.Failure, f.unsaved.Load(), f.unremoved.Load())
	}
	return &status
}

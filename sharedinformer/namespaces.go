package sharedinformer

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/indexer"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/source"
)

// NamespaceSet normalizes a list of namespaces: it sorts them and removes duplicates, and returns just
// metav1.NamespaceAll if the list is nil or contains it. The result is never nil.
func NamespaceSet(namespaces []string) []string {
	if namespaces == nil || slices.Contains(namespaces, metav1.NamespaceAll) {
		return []string{metav1.NamespaceAll}
	}
	set := append([]string{}, namespaces...)
	slices.Sort(set)
	return slices.Compact(set)
}

func (i *core) Namespaces() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.feeds.wanted)
}

func (i *core) SetNamespaces(namespaces []string) error {
	return SetNamespaces([]View{i}, namespaces)
}

// SetNamespaces changes the namespaces of several informers together; see [Informer.SetNamespaces]. No informer
// lists a new namespace before all of them watch it, so code that handles its objects never gets ErrNotWatched
// from another of the informers. If one of the informers cannot be changed, SetNamespaces returns an error and changes none.
func SetNamespaces(informers []View, namespaces []string) error {
	set := NamespaceSet(namespaces)
	var cores []informerCore
	var errs []error
	for _, v := range informers {
		i, is := v.(informerCore)
		if !is {
			return fmt.Errorf("SetNamespaces: %T is not an informer's view", v)
		}
		cores, errs = append(cores, i), append(errs, i.canNarrow(set))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	changed := make(chan struct{})
	defer close(changed)
	for _, i := range cores {
		i.setNamespaces(set, changed)
	}
	return nil
}

// canNarrow returns an error if the source cannot be limited to one of the namespaces.
func (i *core) canNarrow(set []string) error {
	from := source.Describe(i.feeds.source)
	for _, namespace := range set {
		if err := from.CanNarrow(namespace); err != nil {
			return fmt.Errorf("SetNamespaces: %w", err)
		}
	}
	return nil
}

// setNamespaces changes the namespaces. New feeds start once begin is closed.
func (i *core) setNamespaces(set []string, begin <-chan struct{}) {
	feeds := i.newFeeds(set, true)
	for _, f := range feeds {
		f.begin = begin
	}
	i.changeFeeds(func() []*feed {
		before := i.feeds.wanted
		if i.feeds.wanted = set; i.feeds.clusterScoped || slices.Equal(set, before) {
			return nil
		}
		return feeds
	})
}

// scopeFlapWindow is how long the informer ignores reports that a kind is cluster-scoped after it became
// namespaced, because such a report probably comes from the source's cache. The feed treats the report as an
// error and backs off. Otherwise, listing everything and rejecting the namespaces would alternate as fast as
// the server can respond.
const scopeFlapWindow = time.Minute

// becameClusterScoped records that the kind is cluster-scoped.
func (i *core) becameClusterScoped() {
	all := i.newFeedOf(&scopeChecker{ListerWatcher: i.feeds.source, onNamespaced: i.becameNamespaced}, metav1.NamespaceAll, false)
	i.changeFeeds(func() []*feed {
		if regained := i.feeds.regained; i.feeds.clusterScoped || !regained.IsZero() && time.Since(regained) < scopeFlapWindow {
			return nil
		}
		i.feeds.clusterScoped = true
		return []*feed{all}
	})
}

// becameNamespaced records that the kind is namespaced again. It reports whether a feed for everything is
// still wanted.
func (i *core) becameNamespaced() (wanted bool) {
	for {
		set, scoped := i.wanted()
		if !scoped {
			return slices.Contains(set, metav1.NamespaceAll)
		}
		i.restoreNamespaces(set, i.newFeeds(set, true))
	}
}

// wanted returns the wanted namespaces, and whether the kind is cluster-scoped.
func (i *core) wanted() (set []string, scoped bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.feeds.wanted, i.feeds.clusterScoped
}

// restoreNamespaces replaces the feed for everything with the feeds for a set of namespaces, if that set is
// still wanted.
func (i *core) restoreNamespaces(set []string, feeds []*feed) {
	i.changeFeeds(func() []*feed {
		if !i.feeds.clusterScoped || !slices.Equal(set, i.feeds.wanted) {
			return nil
		}
		i.feeds.clusterScoped, i.feeds.regained = false, time.Now()
		return feeds
	})
}

// changeFeeds replaces the feeds with the result of choose, unless that is nil. It calls choose while holding
// mu, and waits for the cache before it locks mu.
func (i *core) changeFeeds(choose func() []*feed) {
	i.join.Lock()
	defer i.join.Unlock()
	var set []*feed
	i.cache.Write(func(w indexer.Writer) {
		i.mu.Lock() // until all is changed, as no reader may find a version for a namespace that was only just added
		if set = choose(); set != nil {
			i.clearVersions(w, set)
		}
	})
	defer i.mu.Unlock()
	if set != nil {
		i.replaceFeeds(set)
	}
}

// clearVersions clears the versions of the cache and of the namespaces that are not in set. The cache then has no
// version until the trims have left the queue. The caller must hold join and mu.
func (i *core) clearVersions(w indexer.Writer, set []*feed) {
	i.feeds.publishedRV = ""
	w.SetRV("")
	for _, f := range i.feeds.all() {
		if feedNamed(set, f.namespace) == nil {
			w.SetNamespaceRV(f.namespace, "")
		}
	}
}

// replaceFeeds gives the informer one feed per namespace in a set, reusing existing feeds. The informer is then
// unsynced until the trims have left the queue. The caller must hold join and mu.
func (i *core) replaceFeeds(set []*feed) {
	all := &i.feeds
	all.changes++
	idle := func(f *feed) bool { return f.cancel == nil }
	all.leaving, all.waiting = slices.DeleteFunc(all.leaving, idle), slices.DeleteFunc(all.waiting, idle)
	var feeds, come []*feed
	before := all.all()
	for _, f := range set {
		if stays := feedNamed(before, f.namespace); stays != nil {
			feeds = append(feeds, stays)
			continue
		}
		f.joinedAt, f.sender = all.changes, uint32(all.changes)
		feeds, come = append(feeds, f), append(come, f)
	}
	trims := 0
	for _, f := range before {
		if feedNamed(feeds, f.namespace) != f && f.cancel != nil {
			f.leftAt = all.changes
			f.cancel()
			all.leaving = append(all.leaving, f)
			trims++
		}
	}
	i.unsync()
	all.current.Store(&feeds)
	all.trims += max(trims, 1)
	if trims == 0 {
		i.queue.Add(deltafifo.Delta{Type: deltafifo.Trim})
	}
	if r := i.current; r != nil && !r.ending {
		for _, f := range come {
			i.startFeed(r, f)
		}
	}
	i.changed.broadcast()
}

// unsync marks the informer as not synced. Call it before changing the feeds, so that no reader finds that a synced
// informer watches a new namespace. The caller must hold join and mu.
func (i *core) unsync() {
	if i.synced.Swap(false) {
		for _, d := range *i.handlers.Load() {
			d.pendingSyncs.Add(1)
		}
	}
}

// leavingNames returns the names of the removed feeds that have not ended, and reports whether the informer
// is running.
func (i *core) leavingNames() (running bool, names string) {
	var each []string
	running, feeds := i.leavingFeeds()
	for _, f := range feeds {
		s := f.reflector.Status()
		if s.State == reflector.Idle { // this one is waiting too
			continue
		}
		name := s.Resource + ", which was cancelled"
		if s.Waiting != "" {
			name += " (" + s.Waiting + ")"
		}
		each = append(each, name)
	}
	return running, strings.Join(each, ", ")
}

// leavingFeeds returns the removed feeds that have not ended, and whether the informer is running.
func (i *core) leavingFeeds() (running bool, leaving []*feed) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, f := range i.feeds.leaving {
		if f.cancel != nil {
			leaving = append(leaving, f)
		}
	}
	return i.current != nil, leaving
}

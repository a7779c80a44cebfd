package sharedinformer

import (
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

// NamespaceSet makes the same of all ways to write a set of namespaces: sorted, each
// once, and metav1.NamespaceAll alone, for nil too. It is never nil.
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
	set := NamespaceSet(namespaces)
	feeds := make([]*feed, len(set))
	from := source.Describe(i.feeds.source)
	for n, namespace := range set {
		if err := from.CanNarrow(namespace); err != nil {
			return fmt.Errorf("SetNamespaces: %w", err)
		}
		feeds[n] = i.newFeed(namespace, true)
	}
	i.changeFeeds(func() []*feed {
		before := i.feeds.wanted
		if i.feeds.wanted = set; i.feeds.clusterScoped || slices.Equal(set, before) {
			return nil
		}
		return feeds
	})
	return nil
}

// scopeFlapWindow is for how long after a kind has turned out to have namespaces a source is not
// believed that says it has none. A source that says so meanwhile usually goes by
// a memory of its own. It is an error then, and the feed tries again as after any other. Without
// that, a list of everything and the refusal of a namespace would call each other up as
// fast as the server answers.
const scopeFlapWindow = time.Minute

// becameClusterScoped takes note that the kind has no namespaces.
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

// becameNamespaced takes note that the kind has namespaces after all. It reports whether
// its objects are wanted nevertheless.
func (i *core) becameNamespaced() (wanted bool) {
	for {
		set, scoped := i.wanted()
		if !scoped {
			return slices.Contains(set, metav1.NamespaceAll)
		}
		i.restoreNamespaces(set, i.newFeeds(set, true))
	}
}

// wanted returns the namespaces that are wanted, and whether the kind has none.
func (i *core) wanted() (set []string, scoped bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.feeds.wanted, i.feeds.clusterScoped
}

// restoreNamespaces gives a kind that has namespaces after all the feeds of a set, if that is
// still the one that is wanted.
func (i *core) restoreNamespaces(set []string, feeds []*feed) {
	i.changeFeeds(func() []*feed {
		if !i.feeds.clusterScoped || !slices.Equal(set, i.feeds.wanted) {
			return nil
		}
		i.feeds.clusterScoped, i.feeds.regained = false, time.Now()
		return feeds
	})
}

// changeFeeds gives the informer other feeds, unless choose, which it calls under mu,
// returns nil. It waits for the cache before it takes mu.
func (i *core) changeFeeds(choose func() []*feed) {
	i.join.Lock()
	defer i.join.Unlock()
	i.cache.Write(func(w indexer.Writer) {
		i.mu.Lock()
		defer i.mu.Unlock()
		if set := choose(); set != nil {
			i.replaceFeeds(w, set)
		}
	})
}

// replaceFeeds gives the informer one feed for each namespace of a set: the one that it
// has, or else that of set. It is called under join and mu.
func (i *core) replaceFeeds(w indexer.Writer, set []*feed) {
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
		f.joinedAt = all.changes
		feeds, come = append(feeds, f), append(come, f)
	}
	var gone []*feed
	trims := 0
	for _, f := range before {
		if feedNamed(feeds, f.namespace) == f {
			continue
		}
		gone = append(gone, f)
		if f.cancel != nil {
			f.leftAt = all.changes
			f.cancel()
			all.leaving = append(all.leaving, f)
			trims++
		}
	}
	i.unsync(w, feeds, gone, max(trims, 1))
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

// unsync makes feeds those of the informer, without those that are gone, and takes back what
// was said of the whole set until trims have left the queue. It is called under join and
// mu.
func (i *core) unsync(w indexer.Writer, feeds, gone []*feed, trims int) {
	i.feeds.current.Store(&feeds)
	i.feeds.trims += trims
	i.feeds.publishedRV = ""
	w.SetRV("")
	for _, f := range gone {
		w.SetNamespaceRV(f.namespace, "")
	}
	if i.synced.Swap(false) {
		for _, d := range *i.handlers.Load() {
			d.pendingSyncs.Add(1)
		}
	}
}

// leavingNames names the feeds that have left and not ended, and reports whether the informer runs.
func (i *core) leavingNames() (running bool, names string) {
	var each []string
	running, feeds := i.leavingFeeds()
	for _, f := range feeds {
		s := f.reflector.Status()
		if s.State == reflector.Idle { // it waits too
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

// leavingFeeds returns the feeds that have left and not ended, and whether the informer runs.
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

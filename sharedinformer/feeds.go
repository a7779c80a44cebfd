package sharedinformer

import (
	"slices"
	"strings"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/indexer"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/source"
)

// feeds is the set of reflectors that fill an informer's queue: one for all namespaces, or one for
// each. The set may change while the informer runs. Invariants:
//
//  1. wanted is sorted and free of duplicates. If it contains metav1.NamespaceAll, it contains nothing else.
//  2. There is exactly one feed for each wanted namespace, in the same order as wanted. If the kind turns out
//     to be cluster-scoped, a single feed for everything replaces them, at most once per scopeFlapWindow.
//  3. A removed feed is never reused: if its namespace is added again, it gets a new feed.
//  4. A feed starts once all feeds removed before it have ended, so its deltas follow
//     all of theirs.
//  5. A feed that is removed while running queues one Trim after its last change. If no removed feed was
//     running, the change itself queues a Trim. trims counts the Trims still queued.
//  6. The cache drops uncovered namespaces when trims reaches 0, and not before, so an
//     object that is wanted before and after a change is never deleted in between.
//  7. The informer is synced when the cache has the initial list of each feed and
//     trims is 0. The cache's RV is the smallest of the feeds' RVs, and empty until
//     then.
//  8. Changing the set makes the informer unsynced and clears the RV, and each handler has one more
//     sync mark to pass.
type feeds struct {
	source        source.ListerWatcher
	opts          reflector.Options
	allNamespaces *reflector.Reflector // covers all namespaces; never run, only provides the name
	refused       *failure.Failure     // an error in an option that reflectors do not check; usually nil

	current  atomic.Pointer[[]*feed] // replaced under core.mu and core.join
	unserved atomic.Bool             // a feed found that the kind is not served, and none has found otherwise since

	// Guarded by core.mu.
	wanted        []string
	clusterScoped bool      // the kind is cluster-scoped, so wanted is ignored
	regained      time.Time // when the kind last became namespaced; zero if never
	changes       uint64    // number of changes to the set
	leaving       []*feed   // removed but possibly still running, in removal order; the first one is still running
	waiting       []*feed   // not started yet, in the order they were added

	// Guarded by core.join.
	trims         int
	publishedRV   string // the smallest of the feeds' versions, or empty
	atPublishedRV int    // number of feeds at that version
}

// all returns the feeds, sorted by namespace. The slice is never modified.
func (f *feeds) all() []*feed { return *f.current.Load() }

// invalid returns the error in the options, if any.
func (f *feeds) invalid() *failure.Failure {
	if fail := f.statusOf(f.allNamespaces).Failure; fail != nil && fail.Phase == failure.PhaseOptions {
		return fail
	}
	return nil
}

// name returns the name of the resource used in messages.
func (f *feeds) name() string {
	switch each := f.all(); len(each) {
	case 0:
		return f.allNamespaces.Name() + " in no namespace"
	case 1:
		return each[0].reflector.Name()
	}
	return f.allNamespaces.Name() + " in several namespaces"
}

// status returns the reflectors' combined status and, unless a single reflector covers all namespaces, the
// status of each.
func (f *feeds) status() (all reflector.Status, each []reflector.Status) {
	feeds := f.all()
	if len(feeds) == 1 && feeds[0].namespace == metav1.NamespaceAll {
		return f.statusOf(feeds[0].reflector), nil
	}
	each = []reflector.Status{}
	for n, one := range feeds {
		s := f.statusOf(one.reflector)
		if each = append(each, s); n == 0 {
			all = s
		} else {
			all = combined(all, s)
		}
	}
	if len(each) == 0 {
		all = f.statusOf(f.allNamespaces)
	}
	all.Resource = f.name()
	return all, each
}

// statusOf returns a reflector's status. If options were rejected, every reflector is reported as failed.
func (f *feeds) statusOf(r *reflector.Reflector) reflector.Status {
	s := r.Status()
	if f.refused != nil && s.Failure == nil {
		s.Failure, s.Attempts = f.refused, f.refused.Attempts
	}
	return s
}

// startWaiting starts the feeds that no longer have to wait for a removed one. It is called when a feed has
// ended or is about to start. The caller must hold core.mu.
func (f *feeds) startWaiting() {
	for len(f.leaving) > 0 && f.leaving[0].cancel == nil {
		f.leaving = f.leaving[1:]
	}
	for len(f.waiting) > 0 && (len(f.leaving) == 0 || f.leaving[0].leftAt > f.waiting[0].joinedAt) {
		close(f.waiting[0].mayStart)
		f.waiting = f.waiting[1:]
	}
}

// feedNamed returns the feed for a namespace, or for all namespaces if it is metav1.NamespaceAll. It returns
// nil if there is none.
func feedNamed(feeds []*feed, namespace string) *feed {
	if n, ok := slices.BinarySearchFunc(feeds, namespace, func(f *feed, namespace string) int {
		return strings.Compare(f.namespace, namespace)
	}); ok {
		return feeds[n]
	}
	return nil
}

// feedCovering returns the feed that covers a namespace: its own feed, or the feed for all namespaces.
func feedCovering(feeds []*feed, namespace string) *feed {
	if f := feedNamed(feeds, namespace); f != nil || len(feeds) == 0 || feeds[0].namespace != metav1.NamespaceAll {
		return f
	}
	return feeds[0]
}

// covers reports whether a feed covers the namespace.
func (f *feeds) covers(namespace string) bool { return feedCovering(f.all(), namespace) != nil }

// advance updates the versions of the namespaces, and of the whole cache, after applying deltas. A namespace has no
// version before its feed's initial list, even if the cache kept the objects of an earlier feed. The caller must hold
// join.
func (f *feeds) advance(w indexer.Writer, deltas []deltafifo.Delta) {
	feeds := f.all()
	if len(feeds) == 1 && feeds[0].namespace == metav1.NamespaceAll {
		// All deltas belong to this feed, so the last version is enough.
		for n := len(deltas) - 1; n >= 0; n-- {
			if rv := deltas[n].RV; rv != "" && feeds[0].listed.Load() {
				feeds[0].rv = rv
				break
			}
		}
		f.publishRV(w)
		return
	}
	again := f.publishedRV == ""
	var of *feed
	for n := range deltas {
		d := &deltas[n]
		if of == nil || of.namespace != d.Key.Namespace {
			of = feedCovering(feeds, d.Key.Namespace)
		}
		if of == nil || !of.listed.Load() || d.RV == "" || d.RV == of.rv {
			continue
		}
		if of.rv == f.publishedRV {
			f.atPublishedRV--
		}
		again = again || f.atPublishedRV == 0 || !object.ReachedRV(d.RV, of.rv)
		of.rv = d.RV
		w.SetNamespaceRV(of.namespace, of.rv)
	}
	if again {
		f.publishRV(w)
	}
}

// publishRV publishes the smallest of the feeds' RVs, or "" if a feed has none. The caller must hold join.
func (f *feeds) publishRV(w indexer.Writer) {
	if least := f.leastRV(); least != f.publishedRV {
		f.publishedRV = least
		w.SetRV(least)
	}
}

func (f *feeds) leastRV() (least string) {
	if !f.complete() {
		return ""
	}
	f.atPublishedRV = 0
	for _, one := range f.all() {
		switch order, err := object.CompareRV(one.rv, least); {
		case one.rv == least:
			f.atPublishedRV++
		case least == "", err == nil && order < 0:
			least, f.atPublishedRV = one.rv, 1
		case err != nil:
			return ""
		}
	}
	return least
}

// complete reports whether the cache has the initial list of each feed and nothing else. The caller must hold
// join.
func (f *feeds) complete() bool {
	for _, one := range f.all() {
		if !one.listed.Load() {
			return false
		}
	}
	return f.trims == 0
}

// retryUnserved wakes all feeds that are backing off because their kind is not served, once one of them, in
// state s, has found that it is. If a kind comes and goes, two feeds do not keep waking each other.
func (f *feeds) retryUnserved(s reflector.Status) {
	switch {
	case s.State == reflector.BackingOff && s.NotServed():
		f.unserved.Store(true)
	case s.State == reflector.Watching && f.unserved.Swap(false):
		for _, one := range f.all() {
			one.retryNow()
		}
	}
}

// combined merges the statuses of two reflectors for the same resource.
func combined(a, b reflector.Status) reflector.Status {
	worst := a
	if worse(b, a) {
		worst = b
	}
	if order, err := object.CompareRV(a.RV, b.RV); err != nil && a.RV != b.RV {
		worst.RV = ""
	} else if worst.RV = a.RV; order > 0 {
		worst.RV = b.RV
	}
	worst.Lists, worst.Relists, worst.Watches = a.Lists+b.Lists, a.Relists+b.Relists, a.Watches+b.Watches
	worst.Events, worst.Bookmarks, worst.Duplicates = a.Events+b.Events, a.Bookmarks+b.Bookmarks, a.Duplicates+b.Duplicates
	worst.Failures, worst.Passed = a.Failures+b.Failures, a.Passed+b.Passed
	if worst.Heard = a.Heard; b.Heard.Before(a.Heard) {
		worst.Heard = b.Heard
	}
	worst.Unordered = a.Unordered || b.Unordered
	worst.Polling = a.Polling || b.Polling
	worst.Resumed = a.Resumed && b.Resumed
	return worst
}

// worse reports whether a is in a worse state than b. A missing list is worst, followed by a failure,
// followed by a wait. Of two failures, the older one is worse.
func worse(a, b reflector.Status) bool {
	switch {
	case (a.RV == "") != (b.RV == ""):
		return a.RV == ""
	case (a.Attempts > 0) != (b.Attempts > 0):
		return a.Attempts > 0
	case (a.Waiting != "") != (b.Waiting != ""):
		return a.Waiting != ""
	}
	return a.Attempts > 0 && a.Failure.Since.Before(b.Failure.Since)
}

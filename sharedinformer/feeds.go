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

// feeds are the reflectors that fill an informer's queue: one for all namespaces, or
// one for each that is wanted. The set may change while the informer runs. What
// stays true:
//
//  1. wanted is sorted, has each namespace once, and metav1.NamespaceAll only alone.
//  2. There is one feed for each wanted namespace, in that order, and no other. Where
//     the kind turns out to have no namespaces, there is the one of all instead. It
//     does so once in believeAgain at most.
//  3. A feed that has left never comes back: a namespace that returns gets a new one.
//  4. A feed starts when all those that left have ended. So nothing that they queued
//     comes after what it queues.
//  5. A feed that leaves while it runs queues one Trim, behind its last change. Where
//     none of those that leave runs, the change of the set queues one. trims counts
//     the Trims that have not left the queue.
//  6. The cache lets go of the namespaces that are not covered when trims falls to 0,
//     and not before. So an object that is wanted before and after a change is never
//     deleted in between.
//  7. The informer is synced when the cache has the initial list of each feed and trims
//     is 0. The RV that the cache promises is the least of the feeds', and empty until
//     then.
//  8. A change takes back what was said of the whole: the sync, the RV, and of each
//     handler one more mark that it has to pass.
type feeds struct {
	source        source.ListerWatcher
	opts          reflector.Options
	allNamespaces *reflector.Reflector // of all namespaces; it does not run, and knows the name
	refused       *failure.Failure     // what is wrong with options of which reflectors know nothing; nil as a rule

	current  atomic.Pointer[[]*feed] // replaced under core.mu and core.join
	unserved atomic.Bool             // one has found that the kind is not served, and none since that it is

	// Guarded by core.mu.
	wanted        []string
	clusterScoped bool      // the kind has no namespaces: wanted means nothing
	regained      time.Time // when it turned out to have namespaces after all; zero if never
	changes       uint64    // of the set
	leaving       []*feed   // that may not have ended, in the order in which they left; the first has not
	waiting       []*feed   // that have not begun, in the order in which they came

	// Guarded by core.join.
	trims         int
	publishedRV   string // the least of the feeds' versions, or empty
	atPublishedRV int    // of how many feeds it is the version
}

// all returns the feeds, sorted by namespace. The slice never changes.
func (f *feeds) all() []*feed { return *f.current.Load() }

// invalid returns what is wrong with the options.
func (f *feeds) invalid() *failure.Failure {
	if fail := f.statusOf(f.allNamespaces).Failure; fail != nil && fail.Phase == failure.PhaseOptions {
		return fail
	}
	return nil
}

// name is what messages call the resource.
func (f *feeds) name() string {
	switch each := f.all(); len(each) {
	case 0:
		return f.allNamespaces.Name() + " in no namespace"
	case 1:
		return each[0].reflector.Name()
	}
	return f.allNamespaces.Name() + " in several namespaces"
}

// status returns what the reflectors come to and, where there is not just that of all
// namespaces, each of them.
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

// statusOf returns the status of a reflector. Options that were refused fail each of them.
func (f *feeds) statusOf(r *reflector.Reflector) reflector.Status {
	s := r.Status()
	if f.refused != nil && s.Failure == nil {
		s.Failure, s.Attempts = f.refused, f.refused.Attempts
	}
	return s
}

// startWaiting lets those feeds begin for which every feed has ended that left before. It is called under
// core.mu, when one has ended or is to begin.
func (f *feeds) startWaiting() {
	for len(f.leaving) > 0 && f.leaving[0].cancel == nil {
		f.leaving = f.leaving[1:]
	}
	for len(f.waiting) > 0 && (len(f.leaving) == 0 || f.leaving[0].leftAt > f.waiting[0].joinedAt) {
		close(f.waiting[0].mayStart)
		f.waiting = f.waiting[1:]
	}
}

// feedNamed returns the feed of a namespace, or of all for metav1.NamespaceAll; nil if there is none.
func feedNamed(feeds []*feed, namespace string) *feed {
	if n, ok := slices.BinarySearchFunc(feeds, namespace, func(f *feed, namespace string) int {
		return strings.Compare(f.namespace, namespace)
	}); ok {
		return feeds[n]
	}
	return nil
}

// feedCovering returns the feed that has a namespace: its own, or the one of all.
func feedCovering(feeds []*feed, namespace string) *feed {
	if f := feedNamed(feeds, namespace); f != nil || len(feeds) == 0 || feeds[0].namespace != metav1.NamespaceAll {
		return f
	}
	return feeds[0]
}

// covers reports whether a namespace is one of those that are fed.
func (f *feeds) covers(namespace string) bool { return feedCovering(f.all(), namespace) != nil }

// advance notes up to where each namespace is complete after some deltas, and
// with that the whole. What an earlier feed queued of a namespace counts too: the
// cache has kept what it had. It is called under join.
func (f *feeds) advance(w indexer.Writer, deltas []deltafifo.Delta) {
	feeds := f.all()
	if len(feeds) == 1 && feeds[0].namespace == metav1.NamespaceAll {
		// Every delta is its own, and the last one says it all.
		for n := len(deltas) - 1; n >= 0; n-- {
			if rv := deltas[n].RV; rv != "" {
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
		if of == nil || d.RV == "" || d.RV == of.rv {
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

// publishRV publishes the least RV of the feeds; none if one has none. It is
// called under join.
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

// complete reports whether the cache has the initial list of each feed, and
// nothing of others. It is called under join.
func (f *feeds) complete() bool {
	for _, one := range f.all() {
		if !one.listed {
			return false
		}
	}
	return f.trims == 0
}

// retryUnserved lets the feeds that wait for their kind to be served ask again at
// once when one of them, in state s, has found that it is. Each would find out by
// itself, but not before its own back-off ends. Two that find their kind in turns, and
// lose it, do not keep each other going.
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

// combined is what two reflectors of one resource come to.
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

// worse reports whether a is worse off than b: one that has no list yet than one
// that has, then one that fails than one that does not, then one that waits, then one that
// has failed for longer.
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

package sharedinformer

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/indexer"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/source"
)

// ErrUndivided: the informer was made without Options.Namespaces, so that they
// cannot be changed.
var ErrUndivided = errors.New("made without Options.Namespaces: give it some, metav1.NamespaceAll for all, to change them later")

// division is what an informer over a set of namespaces has besides.
//
// To change the set: withdraw the sync and the promise, stop the feeds of the
// namespaces that go, and start those of the ones that come, when the former have
// ended. A Trim stands in the queue behind the last change of each feed that goes.
// Where the last of these leaves the queue, the cache lets go of every namespace
// that is not in the set then. So an object that is wanted before and after is
// never deleted in between, and nothing that a feed queued comes after the list of
// the next one.
type division[T object.Object] struct {
	source source.ListerWatcher[T]
	opts   reflector.Options
	whole  *reflector.Reflector[T] // of all namespaces; it does not run, and knows the name

	wanted        []string   // sorted; guarded by Informer.mu
	clusterScoped bool       // the kind has no namespaces: wanted means nothing; guarded by Informer.mu
	leaving       []*feed[T] // that may not have ended; guarded by Informer.mu

	trims    int    // that have not left the queue, or are still to be queued; guarded by Informer.join
	promised string // the least of what the feeds promise; guarded by Informer.join
}

// invalid returns what is wrong with the options, which no feed may be there to tell.
func (d *division[T]) invalid() *failure.Failure {
	if d == nil {
		return nil
	}
	if f := d.whole.Status().Failure; f != nil && f.Phase == failure.PhaseOptions {
		return f
	}
	return nil
}

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

// Namespaces returns those that the informer was last given, sorted; nil where it
// was made without.
func (i *Informer[T]) Namespaces() []string {
	if i.division == nil {
		return nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.division.wanted)
}

// SetNamespaces changes the namespaces of an informer that was made with
// Options.Namespaces, and fails with ErrUndivided otherwise. Nil means all, as does
// metav1.NamespaceAll among others, and an empty slice means none. The informer may be running: it
// returns at once, and WaitForSync waits until the change has taken effect.
//
// Handlers hear an Add, marked as initial, of each object of a namespace that
// came, and a Delete of each object of one that went. Such a Delete says that the
// object is not among the informer's any more, as it does where a selector no
// longer matches, and not that it is gone from the server; it carries the state
// that the cache had, and nothing about it is unknown. Objects of namespaces that
// stay are not touched. From the change until it has taken effect the informer is
// not synced, its handlers neither, and the cache has no RV (L13, L18); each
// namespace goes on having its own (indexer.Reader.NamespaceRV).
//
// For a kind without namespaces they mean nothing: it is cached whole. On an
// informer that is not running the change takes effect when it runs again. It may
// be called from anywhere, handlers and hooks included.
func (i *Informer[T]) SetNamespaces(namespaces []string) error {
	if i.division == nil {
		return fmt.Errorf("%s: %w", i.Name(), ErrUndivided)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	set := NamespaceSet(namespaces)
	if slices.Equal(set, i.division.wanted) {
		return nil
	}
	i.division.wanted = set
	if !i.division.clusterScoped {
		i.divide(set, true)
	}
	return nil
}

// unnamespaced takes note that the kind has no namespaces.
func (i *Informer[T]) unnamespaced() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.division.clusterScoped {
		i.division.clusterScoped = true
		i.divide([]string{metav1.NamespaceAll}, false)
	}
}

// divide gives the informer one feed for each namespace of a set. The lists of
// those that come must be fresh where others may have read the same objects
// before. It is called under mu.
func (i *Informer[T]) divide(set []string, fresh bool) {
	d := i.division
	d.leaving = slices.DeleteFunc(d.leaving, func(f *feed[T]) bool { return f.cancel == nil })
	var feeds, come []*feed[T]
	before := *i.feeds.Load()
	for _, namespace := range set {
		n := slices.IndexFunc(before, func(f *feed[T]) bool { return f.namespace == namespace })
		if n >= 0 {
			feeds = append(feeds, before[n])
			continue
		}
		f := i.newFeed(namespace, fresh)
		feeds, come = append(feeds, f), append(come, f)
	}
	trims := 0
	for _, f := range before {
		if !slices.Contains(feeds, f) && f.cancel != nil {
			f.left = true
			f.cancel()
			d.leaving = append(d.leaving, f)
			trims++
		}
	}
	stopped := trims == 0 // whatever goes
	if stopped {
		trims = 1
	}
	i.withdraw(feeds, trims)
	if stopped {
		i.queue.Add(deltafifo.Delta[T]{Type: deltafifo.Trim})
	}
	if r := i.current; r != nil && !r.ending {
		for _, f := range come {
			i.start(r, f, d.leaving...)
		}
	}
	i.changed.broadcast()
}

// withdraw puts other feeds in the place of those before them, and takes back what
// was said of the whole set until trims have left the queue. It is called under mu.
func (i *Informer[T]) withdraw(feeds []*feed[T], trims int) {
	i.join.Lock()
	defer i.join.Unlock()
	before := *i.feeds.Load()
	i.feeds.Store(&feeds)
	i.division.trims += trims
	i.division.promised = ""
	i.cache.Write(func(w indexer.Writer[T]) {
		w.SetRV("")
		for _, f := range before {
			if !slices.Contains(feeds, f) {
				w.SetNamespaceRV(f.namespace, "")
			}
		}
	})
	if i.synced.Swap(false) {
		for _, r := range *i.handlers.Load() {
			r.awaiting.Add(1)
		}
	}
}

// newFeed returns the feed of one namespace.
func (i *Informer[T]) newFeed(namespace string, fresh bool) *feed[T] {
	d := i.division
	from := &narrowed[T]{ListerWatcher: d.source, fresh: fresh, unnamespace: i.unnamespaced}
	if n, ok := d.source.(source.Namespacer[T]); !ok {
		from.err = fmt.Errorf("Options.Namespaces: %s cannot be narrowed to a namespace: it is no source.Namespacer", from)
	} else if in, err := n.In(namespace); err != nil {
		from.err = fmt.Errorf("Options.Namespaces: %w", err)
	} else {
		from.ListerWatcher = i.reusing(in)
	}
	opts := d.opts
	if opts.Name != "" && namespace != metav1.NamespaceAll {
		opts.Name += " in namespace " + namespace
	}
	return &feed[T]{namespace: namespace, reflector: reflector.New[T](from, within[T]{i.queue, namespace}, opts)}
}

// feedOf returns the feed of exactly that namespace, or else the one of all.
func feedOf[T object.Object](feeds []*feed[T], namespace string) *feed[T] {
	if n, ok := slices.BinarySearchFunc(feeds, namespace, func(f *feed[T], namespace string) int {
		return strings.Compare(f.namespace, namespace)
	}); ok {
		return feeds[n]
	}
	if len(feeds) > 0 && feeds[0].namespace == metav1.NamespaceAll {
		return feeds[0]
	}
	return nil
}

// note writes down up to where each namespace is complete after some deltas, and
// with that the whole. What an earlier feed queued of a namespace counts too: the
// cache has kept what it had. It is called under join.
func (i *Informer[T]) note(w indexer.Writer[T], deltas []deltafifo.Delta[T]) {
	if i.division == nil {
		for n := len(deltas) - 1; n >= 0; n-- {
			if rv := deltas[n].RV; rv != "" {
				w.SetRV(rv)
				return
			}
		}
		return
	}
	feeds := *i.feeds.Load()
	division := i.division
	again := division.promised == ""
	var f *feed[T]
	for n := range deltas {
		d := &deltas[n]
		if f == nil || f.namespace != d.Key.Namespace {
			f = feedOf(feeds, d.Key.Namespace)
		}
		if f == nil || d.RV == "" {
			continue
		}
		again = again || f.rv == division.promised
		f.rv = d.RV
		if f.namespace != metav1.NamespaceAll {
			w.SetNamespaceRV(f.namespace, f.rv)
		}
	}
	if again {
		division.promised = i.promise(feeds)
		w.SetRV(division.promised)
	}
}

// promise is the least of what the feeds promise; nothing where one has none. It
// is called under join.
func (i *Informer[T]) promise(feeds []*feed[T]) (least string) {
	if !i.complete() {
		return ""
	}
	for _, f := range feeds {
		switch order, err := object.CompareRV(f.rv, least); {
		case f.rv == least:
		case least == "", err == nil && order < 0:
			least = f.rv
		case err != nil:
			return ""
		}
	}
	return least
}

// complete reports whether the cache has the initial list of each feed, and
// nothing of others. It is called under join.
func (i *Informer[T]) complete() bool {
	for _, f := range *i.feeds.Load() {
		if !f.whole {
			return false
		}
	}
	return i.division == nil || i.division.trims == 0
}

// wanted reports whether a namespace is one of the informer's. It is called under
// join.
func (i *Informer[T]) wanted(namespace string) bool {
	return feedOf(*i.feeds.Load(), namespace) != nil
}

package sharedinformer

import (
	"fmt"
	"slices"

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

// Namespaces returns those that the informer was last given, sorted:
// metav1.NamespaceAll alone for all of them.
func (i *Informer[T]) Namespaces() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.feeds.wanted)
}

// SetNamespaces changes the namespaces whose objects are wanted. Nil means all that
// the source has, as does metav1.NamespaceAll among others, and an empty slice means
// none. The informer may be running: SetNamespaces returns at once, and WaitForSync
// waits until the change has taken effect. It fails, and changes nothing, where the
// source cannot be narrowed to one of the namespaces.
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
	set := NamespaceSet(namespaces)
	for _, namespace := range set {
		if _, err := i.feeds.in(namespace); err != nil {
			return fmt.Errorf("SetNamespaces: %w", err)
		}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if slices.Equal(set, i.feeds.wanted) {
		return nil
	}
	i.feeds.wanted = set
	if !i.feeds.clusterScoped {
		i.feedWith(set, true)
	}
	return nil
}

// notNamespaced takes note that the kind has no namespaces.
func (i *Informer[T]) notNamespaced() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.feeds.clusterScoped {
		i.feeds.clusterScoped = true
		i.feedWith([]string{metav1.NamespaceAll}, false)
	}
}

// namespaced takes note that the kind has namespaces after all. It reports whether
// its objects are wanted nevertheless.
func (i *Informer[T]) namespaced() (wanted bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.feeds.clusterScoped {
		i.feeds.clusterScoped = false
		i.feedWith(i.feeds.wanted, true)
	}
	return slices.Contains(i.feeds.wanted, metav1.NamespaceAll)
}

// feedWith gives the informer one feed for each namespace of a set. The lists of
// those that come must be fresh where others may have read the same objects
// before. It is called under mu.
func (i *Informer[T]) feedWith(set []string, fresh bool) {
	leaving := slices.DeleteFunc(i.feeds.leaving, func(f *feed[T]) bool { return f.cancel == nil })
	var feeds, come []*feed[T]
	before := i.feeds.all()
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
			leaving = append(leaving, f)
			trims++
		}
	}
	i.feeds.leaving = leaving
	i.withdraw(feeds, max(trims, 1))
	if trims == 0 {
		i.queue.Add(deltafifo.Delta[T]{Type: deltafifo.Trim})
	}
	if r := i.current; r != nil && !r.ending {
		for _, f := range come {
			i.start(r, f)
		}
	}
	i.changed.broadcast()
}

// withdraw puts other feeds in the place of those before them, and takes back what
// was said of the whole set until trims have left the queue. It is called under mu.
func (i *Informer[T]) withdraw(feeds []*feed[T], trims int) {
	i.join.Lock()
	defer i.join.Unlock()
	before := i.feeds.all()
	i.feeds.each.Store(&feeds)
	i.feeds.trims += trims
	i.feeds.promised = ""
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
			r.delivery.awaiting.Add(1)
		}
	}
}

// newFeed returns the feed of one namespace. Where the source cannot be narrowed to
// it, the feed fails with the reason.
func (i *Informer[T]) newFeed(namespace string, fresh bool) *feed[T] {
	from, err := i.feeds.in(namespace)
	if err != nil {
		from = unusable[T]{i.feeds.source, fmt.Errorf("Options.Namespaces: %w", err)}
	} else if reuser, ok := from.(source.Reuser[T]); ok {
		from = reuser.Reusing(i.cache.Peek) // which never waits for the cache
	}
	opts := i.feeds.opts
	opts.Consistent = fresh
	if namespace == metav1.NamespaceAll {
		if i.feeds.clusterScoped {
			from = &scoped[T]{from, i.namespaced}
		}
		return &feed[T]{namespace: namespace, reflector: reflector.New(from, i.queue, opts)}
	}
	if opts.Name != "" {
		opts.Name += " in namespace " + namespace
	}
	return &feed[T]{namespace: namespace, reflector: reflector.New[T](&narrowed[T]{from, i.notNamespaced}, within[T]{i.queue, namespace}, opts)}
}

package sharedinformer

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire"
)

// MutationError reports that a cached object was modified (L16).
type MutationError struct {
	Type string // Go type of the object
	Path string // the first changed field, such as .Spec.NodeName

	// Others is the number of other cached objects that changed too, because they share the sub-object that
	// contains the field.
	Others int
}

func (e *MutationError) Error() string {
	others := ""
	if e.Others > 0 {
		others = fmt.Sprintf(", and so were %d more that share it", e.Others)
	}
	return fmt.Sprintf("%s in the cache was changed at %s%s: objects from a cache are shared, copy with DeepCopy before changing them", e.Type, e.Path, others)
}

// mutationDetector keeps a copy of each cached object and compares the object with the copy: periodically for
// all objects, when an object leaves the cache, and before and after each handler call. If an object has
// changed, all objects are compared immediately, because the modified sub-object may be shared. Each modified
// sub-object is reported once. A packed object's bytes cannot be modified, so only its head is compared, and
// the object itself once it has been opened.
type mutationDetector struct {
	every   time.Duration
	report  func(*failure.Failure)
	reports reportLimiters // indexed by handler name
	forget  func()         // called before a report, so that later objects do not share the current sub-objects; may be nil
	wake    chan struct{}  // holds one token while there is something to report

	mu          sync.Mutex // guards the fields below and the flags of originals; never held while calling other code
	watched     map[object.Key]watched
	early       map[*wire.Packed]*original // objects opened by an index before they entered the cache or after they left it
	leftChanged []*original                // changed objects that are no longer cached
}

// watched holds the modifiable parts of a cached object.
type watched struct {
	cached object.Head
	head   *original // head of a packed object; nil for a whole one
	object *original // nil for a packed object that was never opened
}

// originals returns the non-nil originals.
func (w watched) originals() []*original {
	return slices.DeleteFunc([]*original{w.head, w.object}, func(o *original) bool { return o == nil })
}

// original is a shared object and a copy of its state at the time it was cached.
type original struct {
	shared, copy object.Object
	key          object.Key
	goType       string

	noticed  bool   // a change was detected
	handler  string // the handler whose call changed it; empty if unknown
	reported bool
}

// newOriginal copies an object that other goroutines cannot reach yet.
func newOriginal(key object.Key, o object.Object) *original {
	return &original{shared: o, copy: o.DeepCopyObject().(object.Object), key: key, goType: fmt.Sprintf("%T", inside(o))}
}

// newOriginalHead copies the modifiable parts of a packed object's head. If the object is kept whole, the
// head is part of it.
func newOriginalHead(key object.Key, o *wire.Packed) *original {
	head := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName()}}
	if !o.KeptWhole() {
		head.Labels, head.OwnerReferences, head.DeletionTimestamp = o.GetLabels(), o.GetOwnerReferences(), o.GetDeletionTimestamp()
	}
	original := newOriginal(key, head)
	original.goType = o.Type().String()
	return original
}

// altered returns the first change to the object.
func (o *original) altered() (d difference, differ bool) {
	return firstDifference(inside(o.copy), inside(o.shared))
}

// inside returns the object as users see it. A source may wrap objects; adapters/clientgo wraps objects
// without a version.
func inside(o any) any {
	if around, ok := o.(interface{ Inside() object.Object }); ok {
		return around.Inside()
	}
	return o
}

// detectMutations makes the informer check for modified objects at the given interval. pool contains their
// shared sub-objects; it is nil if there are none.
func (i *core) detectMutations(every time.Duration, pool *wire.Pool) {
	i.mutations = newMutationDetector(every, i.reportNow)
	if pool != nil {
		i.mutations.forget = pool.Forget
	}
	if i.packing != nil {
		i.packing.packer.OnOpen(i.mutations.trackOpened)
	}
}

func newMutationDetector(every time.Duration, report func(*failure.Failure)) *mutationDetector {
	return &mutationDetector{
		every: every, report: report, wake: make(chan struct{}, 1),
		watched: make(map[object.Key]watched), early: make(map[*wire.Packed]*original),
	}
}

// trackOpened is called with each opened object before any other code can reach it.
func (m *mutationDetector) trackOpened(p *wire.Packed, o object.Object) {
	key := object.KeyOf(p)
	made := newOriginal(key, o)
	m.mu.Lock()
	defer m.mu.Unlock()
	if have := m.watched[key]; have.cached == object.Head(p) {
		have.object = made
		m.watched[key] = have
	} else {
		m.early[p] = made
	}
}

// track records objects entering and leaving the cache. It must be called before the new objects are
// reachable, because a handler may modify one as soon as it receives it. The returned function checks the
// objects that left; the caller must hold no locks when calling it.
func (m *mutationDetector) track(events []event) (look func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var left []*original
	for i := range events {
		e := &events[i]
		key := object.KeyOf(e.Object)
		left = append(left, m.watched[key].originals()...)
		if e.Type == Delete {
			delete(m.watched, key)
		} else {
			m.watched[key] = m.watch(key, e.Object)
		}
	}
	clear(m.early)
	return func() { m.checkLeft(left) }
}

// watch returns the modifiable parts of an object entering the cache. The caller must hold mu.
func (m *mutationDetector) watch(key object.Key, o object.Head) watched {
	packed, ok := o.(*wire.Packed)
	if !ok {
		return watched{cached: o, object: newOriginal(key, o.(object.Object))}
	}
	made := watched{cached: o, head: newOriginalHead(key, packed), object: m.early[packed]}
	if made.object == nil && packed.KeptWhole() {
		kept, _ := packed.InUse()
		made.object = newOriginal(key, kept)
	}
	return made
}

// checkLeft checks objects that left the cache for changes made while they were cached.
func (m *mutationDetector) checkLeft(left []*original) {
	for _, o := range left {
		if _, differ := o.altered(); differ {
			m.mu.Lock()
			m.leftChanged = append(m.leftChanged, o)
			m.mu.Unlock()
			m.signal()
		}
	}
}

// check compares one object before or after a handler call. Before the call, handler is "", because the
// handler cannot be blamed for earlier changes.
func (m *mutationDetector) check(cached object.Head, handler string) {
	m.mu.Lock()
	var changed []*original
	if have := m.watched[object.KeyOf(cached)]; have.cached == cached {
		changed = slices.DeleteFunc(have.originals(), func(o *original) bool { return o.noticed })
	}
	m.mu.Unlock()
	changed = slices.DeleteFunc(changed, func(o *original) bool { _, differ := o.altered(); return !differ })
	if len(changed) == 0 {
		return
	}
	m.mu.Lock()
	for _, o := range changed {
		if !o.noticed {
			o.noticed, o.handler = true, handler
		}
	}
	m.mu.Unlock()
	m.signal()
}

func (m *mutationDetector) signal() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// run checks all objects periodically, whenever a change is detected, and when ctx is done.
func (m *mutationDetector) run(ctx context.Context) {
	ticker := time.NewTicker(m.every)
	defer ticker.Stop()
	for ctx.Err() == nil {
		woken := false
		select {
		case <-ticker.C:
		case <-m.wake:
			woken = true
		case <-ctx.Done():
		}
		m.checkAll()
		if woken && ctx.Err() == nil { // leave the rest to the ticker
			continue
		}
		for _, f := range m.reports.flush() {
			m.report(f)
		}
	}
}

// mutation is an object that was modified and the location of the change.
type mutation struct {
	*original
	difference
}

// checkAll reports the changes that have not been reported yet.
func (m *mutationDetector) checkAll() {
	var changed []mutation
	for _, o := range m.unreported() {
		if d, differ := o.altered(); differ {
			changed = append(changed, mutation{o, d})
		}
	}
	if len(changed) > 0 && m.forget != nil {
		m.forget()
	}
	m.mark(changed)
	// Among the objects sharing a sub-object, report the one that a handler received.
	slices.SortFunc(changed, func(a, b mutation) int {
		return cmp.Or(cmp.Compare(b.handler, a.handler), cmp.Compare(a.key.String(), b.key.String()))
	})
	sharing := make(map[uintptr]int)
	for _, c := range changed {
		sharing[c.part]++
	}
	for _, c := range changed {
		n := sharing[c.part]
		delete(sharing, c.part)
		if n == 0 {
			continue
		}
		if f := m.reports.allow(c.handler, &failure.Failure{
			Phase: failure.PhaseCache, Key: c.key, Handler: c.handler,
			Err: &MutationError{Type: c.goType, Path: c.path, Others: n - 1},
		}); f != nil {
			m.report(f)
		}
	}
}

// unreported returns the objects that may need to be reported.
func (m *mutationDetector) unreported() []*original {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.leftChanged
	m.leftChanged = nil
	for _, w := range m.watched {
		all = append(all, w.originals()...)
	}
	return slices.DeleteFunc(all, func(o *original) bool { return o.reported })
}

// mark marks changed as reported.
func (m *mutationDetector) mark(changed []mutation) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range changed {
		c.noticed, c.reported = true, true
	}
}

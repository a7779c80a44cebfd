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

// MutationError says that an object of the cache was changed (L16).
type MutationError struct {
	Type string // Go type of the object
	Path string // the first altered field, such as .Spec.NodeName

	// Others is how many more cached objects were changed thereby, because they
	// share the part in which the field lies.
	Others int
}

func (e *MutationError) Error() string {
	others := ""
	if e.Others > 0 {
		others = fmt.Sprintf(", and with it %d more that share this part", e.Others)
	}
	return fmt.Sprintf("%s in the cache was changed at %s%s: objects from a cache are shared, copy with DeepCopy before changing them", e.Type, e.Path, others)
}

// mutationDetector keeps a copy of each cached object and compares the two: all
// of them now and then, one when it leaves the cache, and one before and after
// each call of a handler. If one differs, all are compared at once, since
// what was altered may be a part that many share: each altered part is reported
// once. The bytes of a packed object cannot be changed: it is its head that is compared, and the object
// once that is opened.
type mutationDetector struct {
	every   time.Duration
	report  func(*failure.Failure)
	reports reportLimiters // by handler
	forget  func()         // called before a report, so that no later object gets the parts that are shared now; may be nil
	wake    chan struct{}  // holds one token while there is something to report

	mu          sync.Mutex // guards all below and the marks of originals; nothing is called while it is held
	watched     map[object.Key]watched
	early       map[*wire.Packed]*original // opened by an index, before they are cached, or when they have left
	leftChanged []*original                // changed ones that are no longer cached
}

// watched is what could be changed of a cached object.
type watched struct {
	cached object.Head
	head   *original // of a packed object; nil for a whole one
	object *original // nil for a packed object that is not opened
}

// originals are those of the two that are there.
func (w watched) originals() []*original {
	return slices.DeleteFunc([]*original{w.head, w.object}, func(o *original) bool { return o == nil })
}

// original is a shared object and what it looked like when it was cached.
type original struct {
	shared, copy object.Object
	key          object.Key
	goType       string

	noticed  bool   // it is known to have changed
	handler  string // whose call it was that changed it; empty where that is not known
	reported bool
}

// newOriginal copies an object that nobody else can reach yet.
func newOriginal(key object.Key, o object.Object) *original {
	return &original{shared: o, copy: o.DeepCopyObject().(object.Object), key: key, goType: fmt.Sprintf("%T", inside(o))}
}

// newOriginalHead copies what of the head of a packed object could be changed. If the object is kept as
// it is, the head is a part of it.
func newOriginalHead(key object.Key, o *wire.Packed) *original {
	head := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName()}}
	if !o.KeptWhole() {
		head.Labels, head.OwnerReferences, head.DeletionTimestamp = o.GetLabels(), o.GetOwnerReferences(), o.GetDeletionTimestamp()
	}
	original := newOriginal(key, head)
	original.goType = o.Type().String()
	return original
}

// altered finds where the object has changed.
func (o *original) altered() (d difference, differ bool) {
	return firstDifference(inside(o.copy), inside(o.shared))
}

// inside returns what users see of an object: a source may put one around each that it has, and
// take it off again, as that of adapters/clientgo does where objects have no version.
func inside(o any) any {
	if around, ok := o.(interface{ Inside() object.Object }); ok {
		return around.Inside()
	}
	return o
}

// detectMutations has the informer look for changed objects now and then. Pool is of their parts, nil
// if they share none.
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

// trackOpened is called with each object of a packed one before anybody else has it.
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

// track takes note of the objects that come into the cache and of those that leave it. It returns a
// function that looks at those that left, to be called while no lock is held. It must be
// called while nobody else can reach the new objects, because a handler may change one
// as soon as it hears of it.
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

// watch returns what could be changed of an object that comes into the cache. It is called under mu.
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

// checkLeft looks for what was changed while it was in the cache.
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

// check looks at one object before a call of a handler, which is not to blame for a change
// that is found then, and after it.
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

// run looks at all now and then, when something was found, and once more when ctx is
// done.
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
		if woken && ctx.Err() == nil { // the rest can wait for more
			continue
		}
		for _, f := range m.reports.flush() {
			m.report(f)
		}
	}
}

// mutation is an object that was changed, and where.
type mutation struct {
	*original
	difference
}

// checkAll reports what was changed and not reported before.
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
	// Of those that share a part, the one that a handler was told about is named.
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

// unreported returns all that may have to be reported.
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

// mark notes that changed are reported.
func (m *mutationDetector) mark(changed []mutation) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range changed {
		c.noticed, c.reported = true, true
	}
}

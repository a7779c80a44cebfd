package sharedinformer

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

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
// each call of a handler. Where one differs, all are compared at once, since
// what was altered may be a part that many share: each altered part is reported
// once.
type mutationDetector struct {
	every  time.Duration
	typeOf func(object.Object) string // the Go type of a cached object
	report func(*failure.Failure)
	forget func()        // called before a report: what is shared now goes to no later object; may be nil
	wake   chan struct{} // holds one token while there is something to report

	mu      sync.Mutex // guards all below and the marks of originals; nothing is called while it is held
	watched map[object.Key]*original
	left    []*original // changed ones that are no longer cached
}

// original is a shared object and what it looked like when it was cached.
type original struct {
	shared, copy object.Object
	key          object.Key

	noticed  bool   // it is known to have changed
	handler  string // whose call it was that changed it; empty where that is not known
	reported bool
}

func newOriginal(key object.Key, o object.Object) *original {
	return &original{shared: o, copy: o.DeepCopyObject().(object.Object), key: key}
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
	var forget func()
	if pool != nil {
		forget = pool.Forget
	}
	if i.packing == nil {
		detector := newMutationDetector(every, i.reportNow)
		detector.forget = forget
		i.mutations = detector
		return
	}
	detector := newOpenedMutations(every, i.reportNow, i.goType)
	detector.forget = forget
	i.packing.by.OnOpen(detector.opened)
	i.mutations = detector
}

func newMutationDetector(every time.Duration, report func(*failure.Failure)) *mutationDetector {
	typeOf := func(o object.Object) string { return fmt.Sprintf("%T", inside(o)) }
	return &mutationDetector{every: every, typeOf: typeOf, report: report, wake: make(chan struct{}, 1), watched: make(map[object.Key]*original)}
}

// mutations is what a core asks of a detector.
type mutations interface {
	// learn is told of what is put into the cache, and what leaves it. It returns a
	// function that looks at what left, to be called where no lock is held. It must be
	// called while nobody else can reach the new objects, because a handler may change one
	// as soon as it hears of it.
	learn(events []event) (look func())

	// look looks at one object, before a call of a handler, which is not to blame for what
	// is found then, and after it.
	look(shared object.Head, handler string)

	// run looks at all now and then, when something was found, and once more when ctx is
	// done.
	run(ctx context.Context)
}

func (m *mutationDetector) learn(events []event) (look func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var left []*original
	for i := range events {
		e := &events[i]
		key := object.KeyOf(e.Object)
		if before, ok := m.watched[key]; ok {
			left = append(left, before)
		}
		if e.Type == Delete {
			delete(m.watched, key)
			continue
		}
		m.watch(key, e.Object.(object.Object))
	}
	return func() { m.checkLeft(left) }
}

// watch copies an object that nobody else can reach yet. It is called under mu.
func (m *mutationDetector) watch(key object.Key, o object.Object) {
	m.watched[key] = newOriginal(key, o)
}

// checkLeft looks for what was changed while it was in the cache.
func (m *mutationDetector) checkLeft(left []*original) {
	for _, o := range left {
		if _, differ := o.altered(); differ {
			m.mu.Lock()
			m.left = append(m.left, o)
			m.mu.Unlock()
			m.signal()
		}
	}
}

func (m *mutationDetector) look(shared object.Head, handler string) {
	m.mu.Lock()
	o, ok := m.watched[object.KeyOf(shared)]
	ok = ok && o.shared == shared && !o.noticed
	m.mu.Unlock()
	if !ok {
		return
	}
	if _, differ := o.altered(); differ {
		m.mu.Lock()
		if !o.noticed {
			o.noticed, o.handler = true, handler
		}
		m.mu.Unlock()
		m.signal()
	}
}

func (m *mutationDetector) signal() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

func (m *mutationDetector) run(ctx context.Context) {
	ticker := time.NewTicker(m.every)
	defer ticker.Stop()
	for ctx.Err() == nil {
		select {
		case <-ticker.C:
		case <-m.wake:
		case <-ctx.Done():
		}
		m.checkAll()
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
		m.report(&failure.Failure{
			Phase: failure.PhaseCache, Key: c.key, Handler: c.handler,
			Err: &MutationError{Type: m.typeOf(c.shared), Path: c.path, Others: n - 1},
		})
	}
}

// unreported returns all that may have to be reported.
func (m *mutationDetector) unreported() []*original {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.left
	m.left = nil
	for _, o := range m.watched {
		all = append(all, o)
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

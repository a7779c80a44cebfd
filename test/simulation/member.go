package simulation

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/indexer"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/source"
)

// informer is an informer of any type in a [play].
type informer interface {
	name() string
	runs() bool
	made() Form
	stop()                // does nothing if not running
	start()               // does nothing if running
	join(Step)            // adds a handler
	handlers() []*handler // handlers that have not been removed
	setNamespaces(n int)  // no-op without namespaces
	block(time.Duration)  // blocks its cache for a while
	awaitRV(rv string)    // waits for rv and checks that the cache has reached it
	check()               // at any time
	settled() []string    // violations that remain once everything should have settled
	unserved() []string   // missing reports that the kind is not served
	stale(frozen bool)    // checks whether it reports that it is stale
}

// member is an informer with its handlers.
type member[T object.Object] struct {
	*sharedinformer.Informer[T]
	play      *play
	process   *process
	form      Form
	called    string
	history   *history
	transform *transform[T]               // nil for none
	halves    []*indexer.Index[T, string] // some are added late
	end       func() error                // nil if not running
	heard     []*recorder[T]
	pace      *pace
	lowest    map[string]int // earliest moment that the cache may show, by namespace or ""
	ran       bool
	begun     uint64 // the server's version at the start of the first run; 0 once synced
	spaces    int    // watched namespaces, as in Form.Namespaces; 0 means none

	blockedUntil atomic.Int64 // an index function fails until this time, in nanoseconds since 1970
}

func newMember[T object.Object](p *play, form Form, called string, of *process, from source.ListerWatcher, h *history) *member[T] {
	m := &member[T]{play: p, process: of, form: form, called: called, history: h, lowest: map[string]int{}, spaces: form.Namespaces}
	m.pace = &pace{play: p, called: called, single: form.Namespaces == 0, blockedUntil: func() time.Time { return m.transform.blockedUntil() }}
	if form.Of != Widgets { // a watch of widgets ends normally when they are no longer served
		m.pace.atLeast = form.WatchTimeout - time.Second
	}
	opts := sharedinformer.Options{
		Name: called, Initial: form.Initial, PageSize: form.PageSize, Compact: form.Compact,
		Timing: reflector.Timing{WatchTimeout: form.WatchTimeout, StreamTimeout: form.StreamTimeout},
		OnState: func(s reflector.Status) {
			p.say(s.Resource, "%s rv %s", s.State, s.RV)
			m.pace.state(s)
			time.Sleep(m.slow(s.Resource))
		},
		OnError: func(_ context.Context, f *failure.Failure) failure.Verdict {
			p.say(called, "failure %v", f)
			m.pace.failed(f)
			if f.Phase == failure.PhaseIndex { // the queue's goroutine waits here, without holding a lock
				for m.blocked() > 0 {
					time.Sleep(10 * time.Millisecond)
				}
			}
			return failure.Retry
		},
	}
	if form.Packed {
		opts.Store = sharedinformer.Packed
	}
	if form.Snapshot {
		opts.Snapshot, opts.TransformVersion = p.directory(called), "1"
	}
	if form.Namespaces != 0 {
		opts.Namespaces = namespacesOf(form.Namespaces)
	}
	if form.Selected {
		opts.LabelSelector = even
	}
	if form.Transformed {
		m.transform = newTransform(m)
		from = reflector.Transformed(from, m.transform.call)
	}
	m.Informer = sharedinformer.New[T](from, opts)
	m.addIndex()
	sharedinformer.AddIndex(m.Informer, "failing", func(T) []string {
		if m.blocked() > 0 {
			panic("planned")
		}
		return nil
	})
	return m
}

// slow returns how long the informer's owner takes to receive a feed's state. The feeds for several
// namespaces start at the same instant but continue at different ones, which makes their order deterministic.
func (m *member[T]) slow(feed string) time.Duration {
	nth := slices.IndexFunc(namespaces, func(ns string) bool { return strings.HasSuffix(feed, " "+ns) })
	return m.form.Slow + time.Duration(max(0, nth))
}

// addIndex adds an index to a cache that may already contain objects.
func (m *member[T]) addIndex() {
	m.halves = append(m.halves, sharedinformer.AddIndex(m.Informer, name("half", len(m.halves)), func(o T) []string {
		return []string{o.GetLabels()["half"]}
	}))
}

func (m *member[T]) block(d time.Duration) { m.blockedUntil.Store(time.Now().Add(d).UnixNano()) }

// blocked returns how long the cache will remain blocked.
func (m *member[T]) blocked() time.Duration { return time.Until(time.Unix(0, m.blockedUntil.Load())) }

func (m *member[T]) name() string { return m.called }

func (m *member[T]) runs() bool { return m.end != nil }
func (m *member[T]) made() Form { return m.form }

func (m *member[T]) start() {
	if m.end != nil {
		return
	}
	m.play.say(m.called, "starts")
	m.pace.began(m.form.Slow > 0)
	m.process.manners.forget()
	if m.begun = 0; !m.ran { // a later run resumes where the previous one left off
		m.begun, m.ran = number(m.play.srv.RV()), true
	}
	ctx, cancel := context.WithCancel(m.play.ctx)
	ended := make(chan error, 1)
	m.play.runs.Go(func() { ended <- m.Run(ctx) })
	m.end = func() error { cancel(); return <-ended }
}

func (m *member[T]) stop() {
	if m.end == nil {
		return
	}
	m.play.say(m.called, "stops")
	m.blockedUntil.Store(0)
	began, free := time.Now(), m.form.Slow == 0 && !m.transform.blocking() // no injected fault delays it
	for _, r := range m.heard {
		free = free && r.in.Load() == 0 && !r.patient && r.next.Load() == int64(well)
	}
	if err := m.end(); err != nil {
		m.play.breaks("L23: %s: Run failed: %v", m.called, err)
	}
	m.end = nil
	atMost := time.Second
	if m.form.Snapshot {
		atMost = 12 * time.Second // it requests the cluster's identity, and writes the snapshot
	}
	if took := time.Since(began); free && took > atMost {
		m.play.breaks("L23: %s took %s to stop", m.called, took)
	}
	for _, r := range m.heard {
		if r.in.Load() != 0 {
			m.play.breaks("L23: %s of %s is still being called after Run has returned", r.called, m.called)
		}
	}
}

func (m *member[T]) setNamespaces(n int) {
	if m.form.Namespaces == 0 {
		return
	}
	m.spaces = n % (allOfThem + 1)
	m.play.say(m.called, "namespaces %q", namespacesOf(m.spaces))
	m.process.manners.forget() // for namespaces that are added back
	for part := range m.lowest {
		if !slices.Contains(namespacesOf(m.spaces), part) {
			delete(m.lowest, part)
		}
	}
	if err := m.SetNamespaces(namespacesOf(m.spaces)); err != nil {
		m.play.breaks("%s: SetNamespaces: %v", m.called, err)
	}
}

func (m *member[T]) awaitRV(rv string) {
	patience := 20 * m.form.WatchTimeout
	m.play.runs.Go(func() {
		ctx, cancel := context.WithTimeout(m.play.ctx, patience)
		defer cancel()
		err := m.WaitForRV(ctx, rv)
		m.play.say(m.called, "waited for rv %s: %v", rv, err)
		if err == nil && number(m.Cache().RV()) < number(rv) && m.play.restored.Load() == 0 {
			m.play.breaks("L14: %s: WaitForRV(%s) succeeded, but the cache is at %s", m.called, rv, m.Cache().RV())
		}
	})
}

// sees reports whether this informer's selector matches the object in state s.
func (m *member[T]) sees(key object.Key, s state) bool {
	return !m.form.Selected || s.content%2 == 0
}

// covers reports whether the informer watches a namespace. An informer for specific namespaces has all
// cluster-scoped objects. So does an informer that no longer watches any namespace, if it found out in time
// that the kind is cluster-scoped.
func (m *member[T]) covers(namespace string) bool {
	some := namespacesOf(m.spaces)
	if namespace == "" && len(some) == 0 {
		return m.Cache().Len() > 0
	}
	return m.form.Namespaces == 0 || m.spaces == allOfThem || slices.Contains(some, namespace) || namespace == ""
}

// parts returns the namespaces that are watched separately.
func (m *member[T]) parts() []string {
	if m.form.Namespaces == 0 {
		return []string{""}
	}
	return m.Namespaces()
}

// check compares the cache with the server's history. The cache must show the complete state at a single
// moment, which must be neither before that of the cache's resource version nor before the last one shown.
func (m *member[T]) check() {
	promises := map[string]string{} // read first, since the cache may advance
	least := m.Cache().RV()
	for _, part := range m.parts() {
		promises[part] = m.Cache().NamespaceRV(part)
		if number(promises[part]) < number(least) && m.play.restored.Load() == 0 {
			m.play.breaks("L13: %s is at rv %s, but its namespace %q is at %s", m.called, least, part, promises[part])
		}
	}
	synced := m.HasSynced()
	if rv := m.Cache().RV(); synced && m.begun > 0 {
		if len(promises) > 0 && number(rv) < m.begun && m.play.restored.Load() == 0 && !m.play.lags() {
			m.play.breaks("L18: %s has synced at rv %s, but the server was at %d when it started", m.called, rv, m.begun)
		}
		m.begun = 0
	}
	objects, _ := m.Cache().Snapshot()
	held := map[object.Key]T{}
	for o := range objects {
		held[object.KeyOf(o)] = o
	}
	for part, rv := range promises {
		if rv == "" && synced {
			m.play.suspect("L18: %s has synced without a list of namespace %q", m.called, part)
		}
		if rv != "" || synced {
			m.checkPart(part, rv, held)
		}
	}
	m.checkIndex()
	m.checkStatus()
}

// checkStatus checks the informer's status.
func (m *member[T]) checkStatus() {
	st := m.Status()
	m.pace.check(st.Reflector)
	if rv := m.Cache().RV(); m.pace.single && m.blocked() < -time.Second && rv != st.Reflector.RV {
		m.play.suspect("L13: the queue of %s is at rv %s, but its cache is at %s", m.called, st.Reflector.RV, rv)
	}
	if st.Reflector.Unordered && m.play.restored.Load() == 0 {
		m.play.breaks("L13: %s reports that the server's versions are unordered, but they are ordered", m.called)
	}
	for _, s := range append(slices.Clone(st.Namespaces), st.Reflector) {
		if s.Attempts > 0 && (s.Failure == nil || s.Failure.Error() == "") {
			m.play.breaks("L22: %s has failed %d times but reports no failure", m.called, s.Attempts)
		}
	}
	if !m.pace.single {
		return
	}
	since := st.Reflector.Since
	if until := m.transform.blockedUntil(); until.After(since) {
		since = until // before that, the transform caused the delay
	}
	if longest, ok := m.longest()[st.Reflector.State]; ok && time.Since(since) > longest && !m.transform.blocking() {
		m.play.breaks("L20: %s has been %s for %s, want at most %s", m.called, st.Reflector.State, time.Since(since), longest)
	}
}

// longest returns how long an informer may stay in certain states, given the defaults of [reflector.Timing].
// After that it gives up, whatever the server does.
func (m *member[T]) longest() map[reflector.State]time.Duration {
	stream := m.form.StreamTimeout
	if stream == 0 {
		stream = 5 * time.Minute
	}
	// The response may take a minute, or more if the source waits at the server's request.
	slack := 71*time.Second + 2*m.form.Slow
	return map[reflector.State]time.Duration{
		reflector.Connecting:   slack,
		reflector.InitialWatch: stream + slack,
		// After a silent watch the informer asks the server whether it has gone back in time.
		reflector.Watching: 2*m.form.WatchTimeout + 30*time.Second + slack,
	}
}

func (m *member[T]) checkPart(part, rv string, held map[object.Key]T) {
	h := m.history
	var keys []object.Key
	for key := range held {
		if part == "" || key.Namespace == part {
			keys = append(keys, key)
		}
	}
	for key := range h.states {
		if _, ok := held[key]; !ok && (part == "" || key.Namespace == part) {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b object.Key) int { return strings.Compare(a.String(), b.String()) })
	when, err := h.moments(keys, func(key object.Key) (string, uint64, bool) {
		o, ok := held[key]
		if !ok {
			return "", 0, false
		}
		return string(o.GetUID()), number(o.GetResourceVersion()), true
	}, m.sees)
	if err != nil {
		m.play.breaks("L12: %s %s shows no moment of the server: %v", m.called, part, err)
		return
	}
	promised := h.promised(number(rv))
	later := intersect(when, promised)
	if len(later) == 0 {
		m.play.breaks("L13: %s %s is at rv %s, which is at moments %v, and shows moments %v", m.called, part, rv, promised, when)
		return
	}
	later = intersect(later, []span{{m.lowest[part], math.MaxInt}})
	if len(later) == 0 {
		m.play.breaks("L12: %s %s showed moment %d before but now shows %v", m.called, part, m.lowest[part], when)
		return
	}
	m.lowest[part] = later[0].first
}

// checkIndex compares lookups with scans (L15).
func (m *member[T]) checkIndex() {
	scan := map[string]int{}
	before := m.Cache().RV()
	for o := range m.Cache().All() {
		scan[o.GetLabels()["half"]]++
	}
	for n, index := range m.halves {
		for _, half := range []string{"even", "odd"} {
			if found := index.Len(half); found != scan[half] && m.Cache().RV() == before {
				m.play.suspect("L15: %s: index %d finds %d objects in half %s, a scan finds %d", m.called, n, found, half, scan[half])
			}
		}
	}
}

// settled returns how the cache and the handlers differ from the server.
func (m *member[T]) settled() (wrong []string) {
	if !m.HasSynced() {
		return []string{fmt.Sprintf("L17: %s has not synced: %v", m.called, m.Unsynced())}
	}
	truth := map[object.Key]string{}
	for key, states := range m.history.states {
		s := states[len(states)-1]
		if s.gone || !m.sees(key, s) || !m.covers(key.Namespace) {
			continue
		}
		truth[key] = fmt.Sprint(s.uid, "@", s.rv, " ", s.content)
	}
	cached := map[object.Key]string{}
	for o := range m.Cache().All() {
		cached[object.KeyOf(o)] = version(o)
		if err := whole(m.form, o); err != nil {
			wrong = append(wrong, fmt.Sprintf("W01: %s: cached %s: %v", m.called, object.KeyOf(o), err))
		}
	}
	wrong = append(wrong, difference("L17: the cache of "+m.called, truth, cached)...)
	if rv := m.Cache().RV(); len(m.parts()) > 0 && number(rv) < m.play.goal {
		wrong = append(wrong, fmt.Sprintf("L14: %s is at rv %s, but the server was at %d", m.called, rv, m.play.goal))
	}
	failed := 0
	for _, r := range m.heard {
		failed += int(r.failed.Load())
		if r.closed.Load() != 0 {
			continue
		}
		wrong = append(wrong, difference("L17: "+r.called+" of "+m.called, truth, r.holds())...)
		if !r.registration.HasSynced() {
			wrong = append(wrong, fmt.Sprintf("L18: %s of %s has not synced", r.called, m.called))
		}
	}
	if told := m.pace.toldOf(); told != failed {
		wrong = append(wrong, fmt.Sprintf("L22: %d handler calls of %s failed, but %d were reported", failed, m.called, told))
	}
	st := m.Status()
	if m.play.unwatched != nil {
		return wrong
	}
	if st.Reflector.Attempts != 0 || len(m.parts()) > 0 && st.Reflector.State != reflector.Watching {
		wrong = append(wrong, fmt.Sprintf("L17: %s is %s after %d failures, the last: %v", m.called, st.Reflector.State, st.Reflector.Attempts, st.Reflector.Failure))
	}
	return wrong
}

// stale reports a violation if the informer is stale without reporting it, or reports it without being stale. An
// informer of widgets without namespaces may be either: it reads all widgets if they were cluster-scoped once, until
// it sees one with a namespace.
func (m *member[T]) stale(frozen bool) {
	if m.form.Of == Widgets && len(m.parts()) == 0 {
		return
	}
	want := frozen && len(m.parts()) > 0
	if old := m.Status().Stale(time.Now(), longStale); m.runs() && len(old) > 0 != want {
		m.play.breaks("L31: %s is stale: %t, but it reports %d stale reflectors: %v", m.called, want, len(old), m.Status().Reflector)
	}
}

func (m *member[T]) handlers() (all []*handler) {
	for _, r := range m.heard {
		if r.closed.Load() == 0 {
			all = append(all, &r.handler)
		}
	}
	return all
}

var errPlanned = errors.New("planned")

// version identifies a state of an object. The resource version does not suffice, because a restore may reuse
// it for different content.
func version(o object.Object) string {
	return fmt.Sprint(o.GetUID(), "@", o.GetResourceVersion(), " ", o.GetLabels()["content"])
}

// difference describes up to three differences between two maps.
func difference(what string, want, got map[object.Key]string) (all []string) {
	for key, v := range want {
		if got[key] != v {
			all = append(all, fmt.Sprintf("%s: %s is at %q on the server but at %q here", what, key, v, got[key]))
		}
	}
	for key, v := range got {
		if _, ok := want[key]; !ok {
			all = append(all, fmt.Sprintf("%s: %s is at %q here but not on the server", what, key, v))
		}
	}
	slices.Sort(all)
	return all[:min(3, len(all))]
}

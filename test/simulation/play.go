package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/apiservertest/network"
	"github.com/millrace-dev/millrace/internal/jitter"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/scheme"
	"github.com/millrace-dev/millrace/snapshot"
	"github.com/millrace-dev/millrace/wire"
)

// Result is the outcome of running a [Schedule].
type Result struct {
	Broken   []string // violations; empty if there are none
	Steps    int
	Requests int           // requests received by the servers
	Events   int           // received by handlers
	Took     time.Duration // in virtual time
	Trace    []string      // if requested
}

// play is one run of a schedule.
type play struct {
	Schedule
	rand   *rand.Rand
	net    *network.Network
	srv    *apiservertest.Server   // the first of fronts
	fronts []*apiservertest.Server // of one cluster
	ctx    context.Context
	runs   sync.WaitGroup // goroutines started by the run

	dir       string // for snapshots; "" if there are none
	processes []*process
	pool      *wire.Pool
	pods      *history
	widgets   *history
	members   []informer
	copier    *copier
	elections *elections
	loans     *loans   // nil if the world has none
	backlog   *backlog // nil if the world has none

	backup *backup
	served bool                   // widgets are served
	shape  apiservertest.Resource // of widgets
	ended  bool                   // no more steps

	unwatched *apiservertest.Fault // a fault that persists when all others are cleared; nil if there is none
	goal      uint64               // the version that caches must eventually reach

	restored atomic.Int32 // number of restores
	healed   atomic.Bool  // all faults have been cleared
	events   atomic.Int64
	began    time.Time

	mu       sync.Mutex // guards the fields below
	broken   []string
	suspects map[string]time.Time // since when
	tracing  bool
	trace    map[string][]line
}

type line struct {
	at   time.Duration
	text string
}

// most is the maximum number of violations recorded per run.
const most = 5

// flood is the number of requests after which to abort a run, because virtual time stands still while a
// client sends requests without pausing.
const flood = 20_000

// Play runs s in a separate synctest bubble.
func Play(t *testing.T, s Schedule) Result {
	t.Helper()
	return run(t, s, false)
}

func run(t *testing.T, s Schedule, tracing bool) (result Result) {
	defer jitter.Seed(s.Seed)()
	synctest.Test(t, func(t *testing.T) {
		p := &play{
			Schedule: s, rand: rand.New(rand.NewPCG(s.Seed, 17)), pool: wire.NewPool(), began: time.Now(),
			pods: newHistory(), widgets: newHistory(), tracing: tracing, trace: map[string][]line{}, suspects: map[string]time.Time{},
		}
		p.open()
		for n, step := range s.Steps {
			p.step(n, step)
			if p.ended || p.over() {
				break
			}
		}
		p.close()
		result = p.result()
	})
	return result
}

// open creates the world.
func (p *play) open() {
	w := p.World
	p.net = network.New(p.Seed)
	p.served, p.shape = true, usual
	p.srv = apiservertest.New(apiservertest.Options{
		Seed: p.Seed, FirstRV: w.FirstRV, History: w.History, BookmarkPeriod: w.Bookmarks, StreamingLists: w.Streams,
		Resources: []apiservertest.Resource{usual},
	})
	p.fronts = []*apiservertest.Server{p.srv}
	for range w.Fronts {
		p.fronts = append(p.fronts, p.srv.Front(apiservertest.FrontOptions{Lag: w.Lag}))
	}
	p.ctx = context.Background()
	for n := range w.Objects {
		p.put(n, n)
		if n%3 == 0 {
			p.putWidget(n, n)
		}
	}
	for n, form := range w.Informers {
		p.members = append(p.members, p.member(name("informer", n), form))
		p.members[n].join(Step{})
		p.members[n].start()
	}
	if w.Reconciles {
		p.copier = newCopier(p)
	}
	p.elections = newElections(p, w.Candidates)
	if w.Loans {
		p.loans = newLoans(p)
	}
	if w.Backlog {
		p.backlog = newBacklog(p)
	}
}

// directory returns an informer's snapshot directory.
func (p *play) directory(called string) *snapshot.Directory {
	if p.dir == "" {
		dir, err := os.MkdirTemp("", "simulation-")
		if err != nil {
			panic(err)
		}
		p.dir = dir
	}
	return snapshot.In(filepath.Join(p.dir, called), snapshot.Options{Interval: 40 * time.Second})
}

var sharedScheme = sync.OnceValue(scheme.New)

// member creates an informer. If it is for widgets, it uses their current version.
func (p *play) member(called string, f Form) informer {
	of := p.process(f.CBOR)
	c := of.client
	pool := p.pool
	if f.Transformed {
		pool = nil // it must own the objects it changes
	}
	switch f.Of {
	case Metadata:
		return newMember[*metav1.PartialObjectMetadata](p, f, called, of, rest.ResourceForKind[*metav1.PartialObjectMetadata](c, podKind).Sharing(pool).Source(), p.pods)
	case Kept:
		return newMember[*corev1.Pod](p, f, called, of, rest.ResourceFor[*corev1.Pod](c).Keep(wire.Only("metadata.labels", "spec.nodeName")).Source(), p.pods)
	case Widgets:
		return newMember[*unstructured.Unstructured](p, f, called, of, rest.ResourceForKind[*unstructured.Unstructured](c, p.shape.GVK()).Source(), p.widgets)
	}
	return newMember[*corev1.Pod](p, f, called, of, rest.ResourceFor[*corev1.Pod](c).Sharing(pool).Source(), p.pods)
}

// step performs one step and checks everything.
func (p *play) step(n int, s Step) {
	time.Sleep(s.Wait)
	p.say("play", "step %d: %s who %d n %d for %s", n, s.Do, s.Who, s.N, s.For)
	do, ok := deeds[s.Do]
	if !ok {
		p.breaks("there is no deed %q", s.Do)
		return
	}
	do(p, s)
	p.check()
}

// check checks the current state of everything.
func (p *play) check() {
	for _, m := range p.members {
		m.check()
	}
	p.ofCopier((*copier).check)
	p.elections.check()
	if p.loans != nil {
		p.loans.check()
	}
	if p.backlog != nil {
		p.backlog.check()
	}
	if n := p.requests(); n > flood {
		p.breaks("L19: the servers received %d requests", n)
		for _, f := range p.fronts {
			f.Down()
		}
	}
}

// over reports whether the run has failed, so that it can stop.
func (p *play) over() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.broken) > 0
}

// calm is how long everything may take at the end to match the server's state. A two-minute watch may have
// just gone silent, or a stream may have just started.
const calm = 30 * time.Minute

// close clears all faults, waits until everything has settled, and stops it.
func (p *play) close() {
	if !p.over() {
		p.say("play", "the end")
		p.heal()
		p.settle()
	}
	for _, m := range p.members {
		m.stop()
	}
	if p.copier != nil {
		p.copier.stop()
	}
	p.elections.stop()
	if p.loans != nil {
		p.loans.stop()
	}
	if p.backlog != nil {
		p.backlog.close(p.Seed%2 == 0)
	}
	p.runs.Wait()
	for _, c := range p.processes {
		c.client.CloseIdleConnections()
	}
	for _, f := range slices.Backward(p.fronts) {
		f.Close()
	}
	if p.dir != "" {
		if err := os.RemoveAll(p.dir); err != nil {
			panic(err)
		}
	}
}

// settle waits until everything has settled.
func (p *play) settle() {
	var wrong []string
	for since := time.Now(); time.Since(since) < calm; {
		time.Sleep(20*time.Second + 13*time.Microsecond)
		synctest.Wait()
		p.check()
		if wrong = p.wrong(); len(wrong) == 0 || p.over() {
			return
		}
	}
	p.unsettled(wrong)
}

// unsettled records the differences that remain after the calm. Each text must start with the law, as breaks
// expects.
func (p *play) unsettled(wrong []string) {
	for _, w := range wrong {
		p.breaks("%s, after %s of calm", w, calm)
	}
}

// wrong returns the remaining differences once everything should have settled.
func (p *play) wrong() (all []string) {
	for _, m := range p.members {
		all = append(all, m.settled()...)
	}
	if p.copier != nil {
		all = append(all, p.copier.settled()...)
	}
	if p.loans != nil {
		all = append(all, p.loans.settled()...)
	}
	return append(all, p.elections.settled()...)
}

// requests returns the number of requests to all servers.
func (p *play) requests() (n int) {
	for _, f := range p.fronts {
		n += f.Stats().Requests("", "")
	}
	return n
}

// heal clears all faults.
func (p *play) heal() {
	p.healed.Store(true)
	for _, f := range p.fronts {
		f.Faults().Clear()
		if p.unwatched != nil {
			f.Faults().Add(*p.unwatched)
		}
		f.Up()
		f.SetStuck(false)
		f.SetLag(p.World.Lag)
	}
	p.srv.SetLag(0)
	p.srv.SetAuthorizer(nil)
	p.serve(usual)
	for _, c := range p.processes {
		c.heal()
	}
	for _, m := range p.members {
		m.start()
		for _, h := range m.handlers() {
			h.heal()
		}
	}
	if p.copier != nil {
		p.copier.heal()
	}
	p.elections.heal()
	p.goal = number(p.srv.RV())
}

func (p *play) result() Result {
	r := Result{Broken: p.broken, Steps: len(p.Steps), Requests: p.requests(),
		Events: int(p.events.Load()), Took: time.Since(p.began)}
	type entry struct {
		line
		who string
	}
	var all []entry
	for who, lines := range p.trace {
		for _, l := range lines {
			all = append(all, entry{l, who})
		}
	}
	slices.SortStableFunc(all, func(a, b entry) int {
		if a.at != b.at {
			return int(a.at - b.at)
		}
		return strings.Compare(a.who, b.who)
	})
	for _, e := range all {
		r.Trace = append(r.Trace, fmt.Sprintf("%15s %s: %s", e.at, e.who, e.text))
	}
	return r
}

// evenGarbled lists the laws that hold even if responses are corrupted.
var evenGarbled = []string{"L07", "L18", "L19", "L22", "L23", "L26"}

// breaks records a violation.
func (p *play) breaks(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if p.World.Garbled && !slices.ContainsFunc(evenGarbled, func(law string) bool { return strings.HasPrefix(text, law) }) {
		return
	}
	p.say("play", "BROKEN %s", text)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.broken) < most {
		p.broken = append(p.broken, text)
	}
}

// suspect records a violation only if it persists, because two reads of a cache may see different states.
func (p *play) suspect(format string, args ...any) {
	text, now := fmt.Sprintf(format, args...), time.Now()
	p.mu.Lock()
	since, seen := p.suspects[text]
	if !seen {
		p.suspects[text] = now
	}
	p.mu.Unlock()
	if seen && since.Before(now) {
		p.breaks("%s", text)
	}
}

// say adds a line to the trace for who.
func (p *play) say(who, format string, args ...any) {
	if !p.tracing {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trace[who] = append(p.trace[who], line{time.Since(p.began), fmt.Sprintf(format, args...)})
}

func name(what string, n int) string { return fmt.Sprint(what, " ", n) }

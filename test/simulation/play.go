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

// Result is what came of a play.
type Result struct {
	Broken   []string // what was seen to be wrong; empty if all is well
	Steps    int
	Requests int           // that the server was asked
	Events   int           // that handlers heard of
	Took     time.Duration // in the play's own time
	Trace    []string      // if it was asked for
}

// play is one schedule being played.
type play struct {
	Schedule
	rand   *rand.Rand
	net    *network.Network
	srv    *apiservertest.Server   // the first of fronts
	fronts []*apiservertest.Server // of one cluster
	ctx    context.Context
	runs   sync.WaitGroup // what the play started

	dir       string // of snapshots, "" where there are none
	processes []*process
	pool      *wire.Pool
	pods      *history
	widgets   *history
	members   []informer
	copier    *copier
	elections *elections
	loans     *loans   // nil if there are none
	backlog   *backlog // nil if there is none

	backup *backup
	served bool                   // widgets are
	shape  apiservertest.Resource // of widgets
	ended  bool                   // no more steps

	unwatched *apiservertest.Fault // that is planned also when all else heals; nil for none
	goal      uint64               // what caches have to reach in the end

	restored atomic.Int32 // how often the server's data went back
	healed   atomic.Bool  // nothing goes wrong any more
	events   atomic.Int64
	began    time.Time

	mu       sync.Mutex // guards what follows
	broken   []string
	suspects map[string]time.Time // since when
	tracing  bool
	trace    map[string][]line
}

type line struct {
	at   time.Duration
	text string
}

// most is how many violations are written down of one play.
const most = 5

// flood is after how many requests a play is over, since time does not go on while
// somebody asks without a pause.
const flood = 20_000

// Play plays s in a bubble of its own.
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

// open makes the world.
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

// directory is where an informer has its snapshots.
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

// member makes an informer. One of widgets is of the version that they have now.
func (p *play) member(called string, f Form) informer {
	of := p.process(f.CBOR)
	c := of.client
	pool := p.pool
	if f.Transformed {
		pool = nil // what it changes must be its own
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

// step plays one step and looks at everything.
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

// check looks at every informer as it is at this moment.
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
		p.breaks("L19: the servers were asked %d times", n)
		for _, f := range p.fronts {
			f.Down()
		}
	}
}

// over reports whether there is no need to go on.
func (p *play) over() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.broken) > 0
}

// calm is how long everything has at the end to come to what the server has. A watch of
// two minutes may have gone silent just before, and a stream just begun.
const calm = 30 * time.Minute

// close heals everything, waits until all is as it should be, and stops everything.
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

// settle waits until all is as it should be.
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

// unsettled writes down what is wrong after all the calm. The law stays first, for breaks.
func (p *play) unsettled(wrong []string) {
	for _, w := range wrong {
		p.breaks("%s, after %s of calm", w, calm)
	}
}

// wrong says what is not as it should be when all is well and quiet.
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

// requests is how often the servers were asked.
func (p *play) requests() (n int) {
	for _, f := range p.fronts {
		n += f.Stats().Requests("", "")
	}
	return n
}

// heal ends all that goes wrong.
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

// evenGarbled are the laws that hold whatever the bytes of an answer are.
var evenGarbled = []string{"L07", "L18", "L19", "L22", "L23", "L26"}

// breaks writes down what is wrong.
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

// suspect writes down what is wrong if it is still so later: two looks at a cache may see
// two moments.
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

// say writes a line into the trace, which has one column for each who.
func (p *play) say(who, format string, args ...any) {
	if !p.tracing {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trace[who] = append(p.trace[who], line{time.Since(p.began), fmt.Sprintf(format, args...)})
}

func name(what string, n int) string { return fmt.Sprint(what, " ", n) }

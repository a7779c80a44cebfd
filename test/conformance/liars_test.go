package conformance_test

import (
	"context"
	"math"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/test/conformance"
	"github.com/millrace-dev/millrace/workqueue"
)

// liar is Millrace's stack with one defect.
type liar struct {
	lie lie
	stack
}

// lie is a defect of a stack. Nil functions change nothing.
type lie struct {
	name  string
	found []string // the cases that must find it

	server   func(*conformance.Server)
	options  func(*conformance.Options)
	handler  func(*conformance.Handler)
	informer func(*informer) conformance.Informer
	joined   func(registration) conformance.Registration
	factory  func(*informers) conformance.Factory
	queue    func(queue) conformance.Queue
}

func (l liar) NewInformer(opts conformance.Options) (conformance.Informer, error) {
	if l.lie.server != nil {
		l.lie.server(&l.server)
	}
	if l.lie.options != nil {
		l.lie.options(&opts)
	}
	i, err := l.stack.NewInformer(opts)
	if err != nil {
		return nil, err
	}
	return l.dress(i.(*informer)), nil
}

func (l liar) NewFactory() (conformance.Factory, error) {
	f, err := l.stack.NewFactory()
	if err != nil || l.lie.factory == nil {
		return f, err
	}
	return l.lie.factory(f.(*informers)), nil
}

func (l liar) NewQueue(first time.Duration) conformance.Queue {
	q := l.stack.NewQueue(first)
	if l.lie.queue == nil {
		return q
	}
	return l.lie.queue(q.(queue))
}

func (l liar) dress(i *informer) conformance.Informer {
	if l.lie.informer != nil {
		return l.lie.informer(i)
	}
	return dressed{i, l.lie}
}

// dressed is an informer with a defect in how it calls handlers.
type dressed struct {
	*informer
	lie lie
}

func (d dressed) AddHandler(h conformance.Handler) (conformance.Registration, error) {
	if d.lie.handler != nil {
		d.lie.handler(&h)
	}
	r, err := d.informer.AddHandler(h)
	if err == nil && d.lie.joined != nil {
		return d.lie.joined(r.(registration)), nil
	}
	return r, err
}

var lies = []lie{
	{
		name: "an update is dropped", found: []string{"L01/changes of one object come in order", "L03/a deletion has the last state"},
		handler: func(h *conformance.Handler) {
			update, first := h.Update, true
			h.Update = func(old, pod *corev1.Pod) {
				if !first {
					update(old, pod)
				}
				first = false
			}
		},
	},
	{
		name: "updates come twice", found: []string{"L01/changes of one object come in order", "L06/a late handler receives everything once"},
		handler: func(h *conformance.Handler) {
			update := h.Update
			h.Update = func(old, pod *corev1.Pod) { update(old, pod); update(old, pod) }
		},
	},
	{
		name: "updates change places", found: []string{"L01/changes of one object come in order", "L02/different objects come in the order of the server"},
		handler: func(h *conformance.Handler) {
			update := h.Update
			var later func()
			h.Update = func(old, pod *corev1.Pod) {
				if later == nil {
					later = func() { update(old, pod) }
					return
				}
				update(old, pod)
				later()
				later = nil
			}
		},
	},
	{
		name: "updates come without the old state", found: []string{"L01/changes of one object come in order"},
		handler: func(h *conformance.Handler) {
			update := h.Update
			h.Update = func(_, pod *corev1.Pod) { update(nil, pod) }
		},
	},
	{
		name: "the old state is the new one", found: []string{"L01/changes of one object come in order"},
		handler: func(h *conformance.Handler) {
			update := h.Update
			h.Update = func(_, pod *corev1.Pod) { update(pod, pod) }
		},
	},
	{
		name: "an update is delivered as a resync", found: []string{"L01/changes of one object come in order"},
		handler: func(h *conformance.Handler) {
			h.Update = func(_, pod *corev1.Pod) { h.Resync(pod) }
		},
	},
	{
		name: "nothing is marked as initial", found: []string{"L06/existing objects are marked as initial"},
		handler: func(h *conformance.Handler) {
			add := h.Add
			h.Add = func(pod *corev1.Pod, _ bool) { add(pod, false) }
		},
	},
	{
		name: "everything is marked as initial", found: []string{"L06/existing objects are marked as initial"},
		handler: func(h *conformance.Handler) {
			add := h.Add
			h.Add = func(pod *corev1.Pod, _ bool) { add(pod, true) }
		},
	},
	{
		name: "two calls at a time", found: []string{"L01/one call at a time"},
		handler: func(h *conformance.Handler) {
			update := h.Update
			h.Update = func(old, pod *corev1.Pod) { go update(old, pod) }
		},
	},
	{
		name: "no deletion is delivered", found: []string{"L02/a relist reports deletions first", "L03/a missed deletion is reported", "L03/every deletion follows an addition", "L04/a recreated object is another one"},
		handler: func(h *conformance.Handler) {
			h.Delete = func(*corev1.Pod, bool) {}
		},
	},
	{
		name: "deletions come twice", found: []string{"L03/every deletion follows an addition"},
		handler: func(h *conformance.Handler) {
			remove := h.Delete
			h.Delete = func(pod *corev1.Pod, unknown bool) { remove(pod, unknown); remove(pod, unknown) }
		},
	},
	{
		name: "no deletion is unknown", found: []string{"L03/a missed deletion is reported"},
		handler: func(h *conformance.Handler) {
			remove := h.Delete
			h.Delete = func(pod *corev1.Pod, _ bool) { remove(pod, false) }
		},
	},
	{
		name: "every deletion is unknown", found: []string{"L03/a deletion has the last state"},
		handler: func(h *conformance.Handler) {
			remove := h.Delete
			h.Delete = func(pod *corev1.Pod, _ bool) { remove(pod, true) }
		},
	},
	{
		name: "a recreated object is an update", found: []string{"L04/a recreated object is another one", "L04/an object recreated during a watch is another one"},
		handler: func(h *conformance.Handler) {
			gone := map[string]*corev1.Pod{}
			add := h.Add
			h.Delete = func(pod *corev1.Pod, _ bool) { gone[pod.Name] = pod }
			h.Add = func(pod *corev1.Pod, initial bool) {
				if old := gone[pod.Name]; old != nil {
					h.Update(old, pod)
					return
				}
				add(pod, initial)
			}
		},
	},
	{
		name: "a panicking handler is removed", found: []string{"L10/a handler continues after a panic"},
		handler: func(h *conformance.Handler) {
			add, over := h.Add, false
			h.Add = func(pod *corev1.Pod, initial bool) {
				if over {
					return
				}
				defer func() {
					if v := recover(); v != nil {
						over = true
						panic(v)
					}
				}()
				add(pod, initial)
			}
		},
	},
	{
		name: "a panic is swallowed", found: []string{"L10/a panic is reported with the object"},
		handler: func(h *conformance.Handler) {
			add := h.Add
			h.Add = func(pod *corev1.Pod, initial bool) {
				defer func() { _ = recover() }()
				add(pod, initial)
			}
		},
	},
	{
		name: "a handler waits for all others", found: []string{"L08/a blocked handler does not delay others", "L06/joining does not wait for other handlers"},
		informer: func(i *informer) conformance.Informer {
			one := make(chan struct{}, 1)
			return dressed{i, lie{handler: func(h *conformance.Handler) {
				add, update := h.Add, h.Update
				h.Add = func(pod *corev1.Pod, initial bool) { one <- struct{}{}; defer func() { <-one }(); add(pod, initial) }
				h.Update = func(old, pod *corev1.Pod) { one <- struct{}{}; defer func() { <-one }(); update(old, pod) }
			}}}
		},
	},
	{
		name: "resyncs go to all handlers", found: []string{"L11/a resync goes only to the handler that requested it"},
		handler: func(h *conformance.Handler) { h.Every = time.Minute },
	},
	{
		name: "no resyncs", found: []string{"L11/a resync goes only to the handler that requested it"},
		handler: func(h *conformance.Handler) { h.Every = 0 },
	},
	{
		name: "nothing is coalesced", found: []string{"L09/the backlog of a slow handler can be bounded"},
		handler: func(h *conformance.Handler) { h.Coalesce = false },
	},
	{
		name: "nothing is reported", found: []string{"L10/a panic is reported with the object", "L21/unreadable input is not skipped", "L21/a failing transform is reported and loses nothing", "L22/a list that is refused is reported", "L22/a watch that is refused is reported", "L22/a watch that breaks is reported"},
		options: func(o *conformance.Options) { o.OnError = nil },
	},
	{
		name: "no transform", found: []string{"L21/a failing transform is reported and loses nothing"},
		options: func(o *conformance.Options) { o.Transform = nil },
	},
	{
		name: "no selector", found: []string{"L17/a change that leaves the selector is a deletion"},
		options: func(o *conformance.Options) { o.LabelSelector = "" },
	},
	{
		name: "Retry-After is ignored", found: []string{"L19/Retry-After is honoured"},
		server: func(s *conformance.Server) {
			dial := s.Dial
			s.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				c, err := dial(ctx, network, address)
				return forgetful{c}, err
			}
		},
	},
	{name: "the cache finds nothing", found: []string{"L05/the cache is updated before the handlers", "L14/a write is read after waiting for its version"}, informer: func(i *informer) conformance.Informer { return nothingFound{i} }},
	{name: "the cache lists everything twice", found: []string{"L12/a reader sees a relist whole or not at all"}, informer: func(i *informer) conformance.Informer { return listsTwice{i} }},
	{name: "the informer is always synced", found: []string{"L18/a list cut short does not sync", "L18/a streaming list without its end does not sync", "L23/a context that is done runs nothing"}, informer: func(i *informer) conformance.Informer { return saysSynced{i} }},
	{name: "the informer never syncs", found: []string{"L18/an empty list syncs"}, informer: func(i *informer) conformance.Informer { return neverSynced{i} }},
	{name: "the version is ahead", found: []string{"L13/the version of the cache is a promise"}, informer: func(i *informer) conformance.Informer { return versionAhead{i} }},
	{name: "a wait for a version does not wait", found: []string{"L14/a wait ends with its context", "L14/a write is read after waiting for its version"}, informer: func(i *informer) conformance.Informer { return waitsForNone{i} }},
	{name: "a wait for a version waits on", found: []string{"L14/a wait ends with its context"}, informer: func(i *informer) conformance.Informer { return waitsOn{i} }},
	{name: "the index is empty", found: []string{"L15/an index finds what a scan finds", "L15/an index function that panics loses no object"}, informer: func(i *informer) conformance.Informer { return noIndex{i} }},
	{name: "Run leaves work behind", found: []string{"L23/no call after the end"}, informer: func(i *informer) conformance.Informer { return leavesRun{i} }},
	{name: "Run leaves a goroutine", found: []string{"L23/an informer leaves nothing behind"}, informer: func(i *informer) conformance.Informer { return outlivesRun{i} }},
	{name: "Run is slow to stop", found: []string{"L23/a stop ends a watch", "L23/a stop ends the wait for a server that is down"}, informer: func(i *informer) conformance.Informer { return slowToStop{i} }},
	{name: "Run does not look at its context first", found: []string{"L23/a context that is done runs nothing"}, informer: func(i *informer) conformance.Informer { return runsAnyway{i} }},
	{name: "Run works once", found: []string{"L24/a stopped informer runs again and reports the difference"}, informer: func(i *informer) conformance.Informer { return runsOnce{i, new(atomic.Bool)} }},
	{name: "the wait for the sync names no cause", found: []string{"L22/waiting for the sync reports the reason"}, informer: func(i *informer) conformance.Informer { return tellsNoCause{i} }},
	{name: "a removed handler stays", found: []string{"L07/a removed handler receives no later change", "L07/a handler may remove itself during a call"}, joined: func(r registration) conformance.Registration { return stays{r} }},
	{name: "removing a handler does not wait", found: []string{"L07/removing a handler waits for its call in progress"}, joined: func(r registration) conformance.Registration { return leavesAtOnce{r} }},
	{name: "removing a handler twice fails", found: []string{"L07/removing a handler twice, and after the end, is safe"}, joined: func(r registration) conformance.Registration { return leavesOnce{r, new(atomic.Bool)} }},
	{name: "a handler is always synced", found: []string{"L18/a handler syncs with its last initial call"}, joined: func(r registration) conformance.Registration { return isSynced{r} }},
	{name: "a handler never syncs", found: []string{"L06/a late handler receives everything once", "L18/a handler syncs with its last initial call"}, joined: func(r registration) conformance.Registration { return isNotSynced{r} }},
	{name: "an informer has all namespaces", found: []string{"L17/an informer of one namespace holds only that namespace"}, options: func(o *conformance.Options) { o.Namespace = "" }},
	{name: "the cache can be written to", found: []string{"L16/the informer gives no write access to the cache"}, informer: func(i *informer) conformance.Informer { return writable{i} }},
	{name: "a change of a cached object is not detected", found: []string{"L16/a change of a cached object is reported with type, key and field"}, options: func(o *conformance.Options) { o.DetectMutations = false }},
	{name: "each request gets its own informer", found: []string{"L25/equal requests get one informer"}, factory: func(f *informers) conformance.Factory { return &manyInformers{informers: f} }},
	{name: "nothing is started", found: []string{"L25/equal requests get one informer"}, factory: func(f *informers) conformance.Factory { return startsNothing{f} }},
	{name: "a released informer keeps running", found: []string{"L25/the last release of an informer stops it"}, factory: func(f *informers) conformance.Factory { return keepsBorrowed{f} }},
	{name: "the first release stops the informer", found: []string{"L25/the last release of an informer stops it"}, factory: func(f *informers) conformance.Factory { return &endsBorrowed{informers: f} }},
	{name: "a key is done when it is handed out", found: []string{"L26/a key has one worker at a time"}, queue: func(q queue) conformance.Queue { return doneAtOnce{q} }},
	{name: "a running key cannot be added", found: []string{"L26/a key added while it is processed is processed again", "L27/every add is followed by a hand-out"}, queue: func(q queue) conformance.Queue { return &dropsRunning{queue: q, running: map[string]bool{}} }},
	{name: "nothing merges", found: []string{"L26/a key has one worker at a time", "L27/adds of a waiting key merge"}, queue: func(q queue) conformance.Queue { return &mergesNothing{queue: q, running: map[string][]string{}} }},
	{name: "nothing is handed out", found: []string{"L26/a key has one worker at a time", "L27/every add is followed by a hand-out", "L27/adds of a waiting key merge", "L28/a drain returns when queued and running work is done", "L29/forgetting a key drops its back-off", "L30/no key starves behind more urgent ones"}, queue: func(q queue) conformance.Queue { return takesNothing{q} }},
	{name: "a drain is a shutdown", found: []string{"L28/a drain returns when queued and running work is done"}, queue: func(q queue) conformance.Queue { return drainsNothing{q} }},
	{name: "a shutdown is a drain", found: []string{"L28/a shutdown does not wait for work"}, queue: func(q queue) conformance.Queue { return drainsAlways{q} }},
	{name: "a shutdown takes effect later", found: []string{"L28/a shutdown ends every wait for a key", "L28/a queue leaves nothing behind"}, queue: func(q queue) conformance.Queue { return endsLater{q} }},
	{name: "a queue leaves a goroutine", found: []string{"L28/a queue leaves nothing behind"}, queue: func(q queue) conformance.Queue { return leavesGoroutine{q} }},
	{name: "a delay is no delay", found: []string{"L29/a delay is honoured"}, queue: func(q queue) conformance.Queue { return delaysNothing{q} }},
	{name: "every delayed add is kept", found: []string{"L29/the earlier of two delayed adds wins", "L29/an immediate add supersedes a delayed one", "L29/forgetting a key drops its delayed add, if requested"}, queue: func(q queue) conformance.Queue { return delaysEach{q} }},
	{name: "the first delay wins", found: []string{"L29/the earlier of two delayed adds wins"}, queue: func(q queue) conformance.Queue { return delaysOnce{q, map[string]bool{}} }},
	{name: "no back-off", found: []string{"L29/forgetting a key drops its back-off"}, queue: func(q queue) conformance.Queue { return backsOffNever{q} }},
	{name: "a back-off is not forgotten", found: []string{"L29/forgetting a key drops its back-off"}, queue: func(q queue) conformance.Queue { return forgetsNothing{q} }},
	{name: "a delayed add is not cancelled", found: []string{"L29/forgetting a key drops its delayed add, if requested"}, queue: func(q queue) conformance.Queue { return cancelsNothing{q} }},
	{name: "the most urgent key is always first", found: []string{"L30/no key starves behind more urgent ones"}, queue: func(queue) conformance.Queue {
		return queue{workqueue.New(workqueue.Options[string]{FairEvery: math.MaxInt})}
	}},
	{name: "no handler lags", found: []string{"L09/the lag of a handler is visible"}, joined: func(r registration) conformance.Registration { return lagsNever{r} }},
}

// Each defect is found by the cases that test for it.
func TestFaultyStacksAreFound(t *testing.T) {
	for _, l := range lies {
		t.Run(l.name, func(t *testing.T) {
			played := 0
			for _, c := range conformance.Cases() {
				if !slices.Contains(l.found, c.String()) {
					continue
				}
				played++
				r := conformance.Judge(t, c, func(s conformance.Server) conformance.Stack { return liar{l, stack{s}} })
				assert.Equal(t, conformance.Broken, r.Verdict, "%s", c)
			}
			assert.Equal(t, len(l.found), played, "a case that is named here does not exist")
		})
	}
}

// A case that fails by chance is repeated until it fails, but not forever.
func TestFlakyScenariosAreRepeated(t *testing.T) {
	i := slices.IndexFunc(conformance.Cases(), func(c conformance.Case) bool { return c.String() == "L15/an index finds what a scan finds" })
	require.GreaterOrEqual(t, i, 0)
	empty := func(i *informer) conformance.Informer { return noIndex{i} }
	for _, tt := range []struct {
		name      string
		sometimes bool
		breaks    int // number of the play that breaks
		want      int // number of plays
	}{
		{"at once", true, 1, 1},
		{"later", true, 5, 5},
		{"never", true, 0, 20},
		{"always", false, 1, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			played := 0
			conformance.JudgeKnown(t, conformance.Cases()[i], func(s conformance.Server) conformance.Stack {
				if played++; played == tt.breaks {
					return liar{lie{informer: empty}, stack{s}}
				}
				return stack{s}
			}, conformance.Known{Story: "by chance", Sometimes: tt.sometimes})
			assert.Equal(t, tt.want, played)
		})
	}
}

// A case known to crash the process is skipped, and counts as broken.
func TestScenariosKnownToCrashAreSkipped(t *testing.T) {
	r := conformance.Once(t, conformance.Cases()[0], func(conformance.Server) conformance.Stack {
		t.Error("a stack was built")
		return nil
	}, conformance.Known{Story: "the process ends", Fatal: true})
	assert.Equal(t, conformance.Broken, r.Verdict)
}

// A deletion without an object is reported as such.
func TestADeletionWithoutTheObjectIsNamed(t *testing.T) {
	i := slices.IndexFunc(conformance.Cases(), func(c conformance.Case) bool { return c.String() == "L03/a deletion has the last state" })
	require.GreaterOrEqual(t, i, 0)
	r := conformance.Judge(t, conformance.Cases()[i], func(s conformance.Server) conformance.Stack {
		return liar{lie{handler: func(h *conformance.Handler) {
			remove := h.Delete
			h.Delete = func(_ *corev1.Pod, unknown bool) { remove(nil, unknown) }
		}}, stack{s}}
	})
	assert.Contains(t, strings.Join(r.Breaks, "\n"), "delete without the object")
	assert.NotContains(t, strings.Join(r.Breaks, "\n"), "panic")
}

// If a stack does not return from a call, the call is named.
func TestCallsThatDoNotReturnAreNamed(t *testing.T) {
	cases := map[string]conformance.Case{}
	for _, c := range conformance.Cases() {
		cases[c.String()] = c
	}
	run, list, join := cases["L23/a stop ends a watch"], cases["L17/converges after disconnects"], cases["L06/joining does not wait for other handlers"]
	for _, tt := range []struct {
		name string
		lie  func(*informer) conformance.Informer
		c    conformance.Case
		want string
	}{
		{"Run panics", func(i *informer) conformance.Informer { return runPanics{i} }, run, "panic in Run: on purpose"},
		{"Run calls Goexit", func(i *informer) conformance.Informer { return runGoes{i} }, run, "the stack has called runtime.Goexit in Run"},
		{"Run returns early", func(i *informer) conformance.Informer { return runReturns{i} }, run, "Run ended by itself"},
		{"List panics", func(i *informer) conformance.Informer { return listPanics{i} }, list, "panic in the case: on purpose"},
		{"AddHandler panics", func(i *informer) conformance.Informer { return joinPanics{i, new(atomic.Bool)} }, join, "panic in AddHandler: on purpose"},
		{"List calls Goexit", func(i *informer) conformance.Informer { return listGoes{i} }, list, "the stack has called runtime.Goexit in the case"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := conformance.Judge(t, tt.c, func(s conformance.Server) conformance.Stack {
				return liar{lie{informer: tt.lie}, stack{s}}
			})
			assert.Equal(t, conformance.Broken, r.Verdict)
			assert.Contains(t, strings.Join(r.Breaks, "\n"), tt.want)
		})
	}
}

// With testing/synctest, a hanging call or a leaked goroutine crashes the process. The output
// before that names the goroutine and the other failures.
func TestScenarioThatCrashesIsNamed(t *testing.T) {
	ends := map[string]func(*informer) conformance.Informer{
		"the case has not ended after 48h0m0s: a call of the stack does not return": func(i *informer) conformance.Informer { return runHangs{i} },
		"panic in Run: on purpose": func(i *informer) conformance.Informer { return runLeaks{i} },
	}
	if lied := ends[os.Getenv("CONFORMANCE_ENDS")]; lied != nil {
		conformance.Informers(t, func(s conformance.Server) conformance.Stack { return liar{lie{informer: lied}, stack{s}} })
		return
	}
	for want := range ends {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestScenarioThatCrashesIsNamed$/L23/a_stop_ends_a_watch")
		cmd.Env = append(os.Environ(), "CONFORMANCE_ENDS="+want)
		out, err := cmd.CombinedOutput()
		require.Error(t, err)
		assert.Contains(t, string(out), "FAIL: TestScenarioThatCrashesIsNamed/L23/a_stop_ends_a_watch")
		assert.Contains(t, string(out), want)
	}
}

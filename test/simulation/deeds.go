package simulation

import (
	"math/rand/v2"
	"os"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
)

// deeds maps deed names to functions.
var deeds map[Deed]func(*play, Step)

func init() {
	deeds = map[Deed]func(*play, Step){
		"put":             func(p *play, s Step) { p.put(s.Who, s.N); p.putWidget(s.Who, s.N) },
		"delete":          (*play).deleteBoth,
		"replace":         (*play).replace,
		"burst":           (*play).burst,
		"pass":            func(p *play, s Step) { p.pass(s.For) },
		"compact":         func(p *play, _ Step) { p.srv.Compact() },
		"restart":         (*play).restart,
		"down":            func(p *play, s Step) { p.frontOf(s).Down() },
		"up":              func(p *play, s Step) { p.frontOf(s).Up() },
		"lag":             (*play).lag,
		"backup":          (*play).keep,
		"restore":         (*play).restore,
		"upgrade":         (*play).upgrade,
		"access":          (*play).access,
		"definition":      (*play).definition,
		"reshape":         (*play).reshape,
		"link":            (*play).spoilLink,
		"change":          (*play).change,
		"fault":           (*play).fault,
		"toggle":          (*play).toggle,
		"join":            (*play).join,
		"leave":           (*play).leave,
		"mood":            (*play).spoil,
		"namespaces":      func(p *play, s Step) { p.eachOf(s, func(m informer) { m.setNamespaces(s.N) }) },
		"await":           (*play).await,
		"reconcile":       (*play).spoilReconcile,
		"stop copier":     func(p *play, _ Step) { p.ofCopier((*copier).toggle) },
		"candidate":       (*play).toggleCandidate,
		"steal copies":    (*play).stealCopies,
		"trickle":         (*play).trickle,
		"storm":           (*play).storm,
		"isolate":         (*play).isolate,
		"rewind":          (*play).rewind,
		"refuse":          (*play).refuse,
		"freeze":          (*play).freeze,
		"block":           func(p *play, s Step) { p.eachOf(s, func(m informer) { m.block(s.For) }) },
		"borrow":          ofLoans((*loans).borrow),
		"give back":       ofLoans((*loans).giveBack),
		"restart factory": ofLoans((*loans).restart),
		"ask":             ofBacklog((*backlog).ask),
		"hurry":           ofBacklog((*backlog).hurry),
		"give up":         ofBacklog((*backlog).giveUp),
		"drain":           ofBacklog((*backlog).drain),
	}
}

// eachOf calls do with the informer that s selects.
func (p *play) eachOf(s Step, do func(informer)) {
	if len(p.members) > 0 {
		do(p.members[s.Who%len(p.members)])
	}
}

func ofLoans(do func(*loans, Step)) func(*play, Step) {
	return func(p *play, s Step) {
		if p.loans != nil {
			do(p.loans, s)
		}
	}
}

func ofBacklog(do func(*backlog, Step)) func(*play, Step) {
	return func(p *play, s Step) {
		if p.backlog != nil {
			do(p.backlog, s)
		}
	}
}

func (p *play) ofCopier(do func(*copier)) {
	if p.copier != nil {
		do(p.copier)
	}
}

// pass waits for d, checking everything at intervals.
func (p *play) pass(d time.Duration) {
	for range 3 {
		time.Sleep(d / 3)
		p.check()
	}
}

func (p *play) deleteBoth(s Step) {
	p.remove(podGVR, p.pods, keyOf(s.Who))
	p.remove(p.shape.GVR, p.widgets, p.widgetKey(s.Who))
}

// replace replaces an object with another one of the same name.
func (p *play) replace(s Step) {
	p.deleteBoth(s)
	p.put(s.Who, s.N)
	p.putWidget(s.Who, s.N)
}

// burst changes objects around Who s.N%30 times, sometimes in quick succession.
func (p *play) burst(s Step) {
	random := rand.New(rand.NewPCG(uint64(s.N), uint64(s.Who)))
	for range s.N % 30 {
		change := Step{Who: random.IntN(names), N: random.IntN(1000)}
		switch random.IntN(5) {
		case 0:
			p.deleteBoth(change)
		case 1:
			p.replace(change)
		default:
			p.put(change.Who, change.N)
			p.putWidget(change.Who, change.N)
		}
		if random.IntN(3) == 0 {
			time.Sleep(time.Duration(random.IntN(300_000_000)))
		}
	}
}

// restart restarts a server, which closes all its connections. If N is odd, the watch cache is rebuilt,
// sometimes with a different size.
func (p *play) restart(s Step) {
	switch s.N % 6 {
	case 1, 3:
		p.frontOf(s).RestartCold(0)
	case 5:
		p.frontOf(s).RestartCold(1 + s.N%20)
	default:
		p.frontOf(s).Restart()
	}
}

// fault makes some of the next requests fail.
func (p *play) fault(s Step) {
	random := rand.New(rand.NewPCG(uint64(s.N), 3))
	frame := random.IntN(8)
	internal := metav1.Status{Status: metav1.StatusFailure, Code: 500, Reason: metav1.StatusReasonInternalError, Message: "planned"}
	expired := metav1.Status{Status: metav1.StatusFailure, Code: 410, Reason: metav1.StatusReasonExpired, Message: "planned"}
	actions := []apiservertest.Action{
		apiservertest.Delay{For: s.For},
		apiservertest.Cut{AfterBytes: int64(random.IntN(6000))},
		apiservertest.Fail{Code: []int{429, 500, 503, 504}[random.IntN(4)], RetryAfter: []string{"", "3", "1", "40"}[random.IntN(4)]},
		apiservertest.Fail{Code: []int{401, 403, 404}[random.IntN(3)]},
		apiservertest.Fail{Code: 410},
		apiservertest.Compacted{},
		apiservertest.Garble{Frame: frame},
		apiservertest.Truncate{Frame: frame},
		apiservertest.Oversize{Frame: frame, Size: 1 << 20},
		apiservertest.WrongType{Frame: frame},
		apiservertest.NoBookmarks{},
		apiservertest.RepeatBookmarks{Times: 3},
		apiservertest.BareBookmarks{},
		apiservertest.Duplicate{Every: 1 + random.IntN(4)},
		apiservertest.Silence{AfterFrames: frame},
		apiservertest.WithholdEnd{},
		apiservertest.ErrorEvent{AfterFrames: frame, Status: internal},
		apiservertest.ErrorEvent{AfterFrames: frame, Status: expired},
	}
	if p.World.Garbled {
		actions = append(actions,
			apiservertest.Alter{At: random.Int64N(3000), Flip: byte(1 + random.IntN(255))},
			apiservertest.Alter{At: random.Int64N(3000), Cut: 1 + random.Int64N(200)},
			apiservertest.Alter{At: random.Int64N(3000), Insert: []byte("\x00{}[1e9\xff")},
		)
	}
	action := actions[s.Who%len(actions)]
	p.say("play", "fault %T %+v", action, action)
	verbs := []string{"list", "watch", ""}
	if f, ok := action.(apiservertest.Fail); ok && f.Code < 410 {
		verbs = verbs[:2] // because writers trust a not-found response
	}
	p.fronts[random.IntN(len(p.fronts))].Faults().Add(apiservertest.Fault{
		Verb:  verbs[random.IntN(len(verbs))],
		Skip:  random.IntN(2),
		Count: 1 + random.IntN(3),
		Do:    []apiservertest.Action{action},
	})
}

// toggle stops, starts or interrupts an informer.
func (p *play) toggle(s Step) {
	p.eachOf(s, func(m informer) {
		switch {
		case s.N%4 == 0:
			p.interrupt(s, m)
		case m.runs() && m.made().Snapshot && s.N%3 == 0:
			p.kill(m)
		case m.runs():
			m.stop()
		case m.made().Snapshot:
			p.succeed(s, m)
		default:
			m.start()
		}
	})
}

// kill stops an informer without letting it write its snapshot.
func (p *play) kill(m informer) {
	dir := p.directory(m.name()).Path()
	there := os.Rename(dir, dir+".before") == nil
	m.stop()
	_ = os.RemoveAll(dir) // discard anything that it wrote while stopping
	if there {
		_ = os.Rename(dir+".before", dir)
	}
}

// succeed replaces a stopped process with a new one.
func (p *play) succeed(s Step, m informer) {
	next := p.member(m.name(), m.made())
	p.members[slices.Index(p.members, m)] = next
	next.join(s)
	next.start()
}

func (p *play) join(s Step) { p.eachOf(s, func(m informer) { m.join(s) }) }

// leave removes the N-th handler, and sometimes waits for its call in progress.
func (p *play) leave(s Step) {
	p.eachOf(s, func(m informer) {
		all := m.handlers()
		if len(all) == 0 {
			return
		}
		h := all[s.N%len(all)]
		if n := slices.IndexFunc(all, func(h *handler) bool { return h.in.Load() > 0 }); n >= 0 {
			h = all[n] // leaving during a call is the harder case
		}
		p.say(m.name(), "%s leaves", h.called)
		h.leave(s.N%2 == 0)
	})
}

// spoil makes a handler's next call fail.
func (p *play) spoil(s Step) {
	p.eachOf(s, func(m informer) {
		for n, h := range m.handlers() {
			if n == s.N%3 {
				h.next.Store(int64(s.N) % int64(moods))
			}
		}
	})
}

func (p *play) await(s Step) {
	p.eachOf(s, func(m informer) {
		if rv := p.put(s.Who, s.N); rv != "" {
			m.awaitRV(p.srv.RVOf(podGVR))
		}
	})
}

func (p *play) spoilReconcile(s Step) {
	p.ofCopier(func(c *copier) { c.next.Store(int64(s.N) % int64(moods)) })
}

func (p *play) toggleCandidate(s Step) {
	all := p.elections.candidates
	if len(all) == 0 {
		return
	}
	if c := all[s.Who%len(all)]; s.N%4 == 0 {
		p.elections.unmake(c)
	} else {
		c.toggle()
	}
}

// stealCopies deletes some of the copies that the controller has created and seen. If a copy were deleted
// during an outage, before the cache had seen it, only a resync could detect that.
func (p *play) stealCopies(s Step) {
	p.ofCopier(func(c *copier) {
		for n := range s.N % 5 {
			if _, seen := c.copies.Get(keyOf(s.Who + n)); seen {
				_ = p.srv.Delete(configMapGVR, keyOf(s.Who+n)) // other clients may have been faster
			}
		}
	})
}

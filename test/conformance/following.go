package conformance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
)

// expired is the response to a watch from a resource version that the server no longer has.
var expired = metav1.Status{Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired, Message: "too old resource version"}

// converges returns a case in which something fails temporarily while pods change.
func converges(name string, server apiservertest.Options, wrong func(*play)) Case {
	return Case{
		Law: "L17", Name: "converges after " + name, Source: clientGo(64, 72), server: server,
		play: func(p *play) {
			for n := range 10 {
				p.put(fmt.Sprint("pod-", n), "0")
			}
			i := p.informer(Options{})
			w := p.witness(i)
			wrong(p)
			p.run(i)
			for n := range 60 {
				if p.put(fmt.Sprint("pod-", n%15), fmt.Sprint(n)); n%7 == 6 {
					p.delete(fmt.Sprint("pod-", n%15))
				}
				if n%20 == 19 {
					p.srv.Restart()
				}
				settle(5 * time.Second)
			}
			p.over()
			p.want(i.HasSynced(), "the informer has not synced")
			p.equal(i)
			w.agrees()
			w.lawful()
		},
	}
}

func now(verb string, every int, do ...apiservertest.Action) func(*play) {
	return func(p *play) {
		p.srv.Faults().Add(apiservertest.Fault{Verb: verb, Resource: pods.Resource, Every: every, Do: do})
	}
}

// schedules is the number of random fault sequences per case.
const schedules = 20

// following lists the cases about listing and watching.
var following = []Case{
	converges("disconnects", apiservertest.Options{}, now("watch", 1, apiservertest.Cut{AfterBytes: 3000})),
	converges("expired versions", apiservertest.Options{}, now("watch", 2, apiservertest.ErrorEvent{AfterFrames: 2, Status: expired})),
	converges("429 with Retry-After", apiservertest.Options{}, now("", 2, apiservertest.Fail{Code: http.StatusTooManyRequests, RetryAfter: "2"})),
	converges("500", apiservertest.Options{}, now("", 2, apiservertest.Fail{Code: http.StatusInternalServerError})),
	converges("truncated lists", apiservertest.Options{StreamingLists: apiservertest.StreamingListsRefused}, now("list", 2, apiservertest.Truncate{Frame: 3})),
	converges("truncated watches", apiservertest.Options{}, now("watch", 1, apiservertest.Truncate{Frame: 4})),
	converges("garbled frames", apiservertest.Options{}, now("watch", 2, apiservertest.Garble{Frame: 4})),
	converges("objects of another type", apiservertest.Options{}, now("watch", 2, apiservertest.WrongType{Frame: 4})),
	converges("repeated events", apiservertest.Options{}, now("watch", 1, apiservertest.Duplicate{Every: 2})),
	converges("repeated bookmarks", apiservertest.Options{BookmarkPeriod: time.Second}, now("watch", 1, apiservertest.RepeatBookmarks{Times: 2})),
	converges("missing bookmarks", apiservertest.Options{}, now("watch", 1, apiservertest.NoBookmarks{})),
	converges("a compaction with each watch", apiservertest.Options{}, now("watch", 3, apiservertest.Compacted{})),
	{
		Law: "L17", Name: "converges after any series of faults", Source: clientGo(64, 72),
		play: func(p *play) {
			for seed := range uint64(schedules) {
				p.anySeries(seed)
			}
		},
	},
	{
		Law: "L17", Name: "a relist does not report unchanged objects",
		play: func(p *play) {
			for n := range 20 {
				p.put(fmt.Sprint("pod-", n), "0")
			}
			_, w := p.synced(Options{})
			w.forget()
			p.away(func() { p.put("pod-3", "1") })
			w.tells("update pod-3=1")
		},
	},
	{
		Law: "L17", Name: "a change that leaves the selector is a deletion",
		play: func(p *play) {
			p.put("a", "in")
			_, w := p.synced(Options{LabelSelector: "state=in"})
			p.put("a", "out")
			settle(time.Minute)
			p.put("a", "in")
			settle(time.Minute)
			p.want(len(w.all()) == 3 && w.all()[1].call == "delete" && w.all()[2].call == "add", "heard %q", w.story())
		},
	},
	{
		Law: "L18", Name: "an empty list syncs", Source: clientGo(203, 205),
		play: func(p *play) { p.synced(Options{}) },
	},
	{
		Law: "L18", Name: "a list cut short does not sync", Source: clientGo(203, 205),
		server: apiservertest.Options{StreamingLists: apiservertest.StreamingListsRefused},
		play: func(p *play) {
			for n := range 20 {
				p.put(fmt.Sprint("pod-", n), "0")
			}
			now("list", 1, apiservertest.Truncate{Frame: 10})(p)
			i := p.informer(Options{})
			p.run(i)
			settle(10 * time.Minute)
			p.want(!i.HasSynced(), "synced with %d of 20 objects", len(i.List()))
			p.over()
			p.want(i.HasSynced(), "not synced after the fault was over")
			p.equal(i)
		},
	},
	{
		Law: "L18", Name: "a streaming list without its end does not sync", Source: clientGo(203, 205),
		play: func(p *play) {
			for n := range 20 {
				p.put(fmt.Sprint("pod-", n), "0")
			}
			now("", 1, apiservertest.Cut{AfterBytes: 2000})(p)
			i := p.informer(Options{})
			p.run(i)
			settle(10 * time.Minute)
			p.want(!i.HasSynced(), "synced with %d of 20 objects", len(i.List()))
		},
	},
	{
		Law: "L18", Name: "a handler syncs with its last initial call", Source: clientGo(269, 270),
		play: func(p *play) {
			for n := range 5 {
				p.put(fmt.Sprint("pod-", n), "0")
			}
			i := p.informer(Options{})
			var w *witness
			w = p.witnessWith(i, Handler{}, func(heard) {
				p.want(!w.r.HasSynced(), "the handler is synced during its initial list")
				time.Sleep(time.Minute)
			})
			p.run(i)
			settle(time.Hour)
			p.want(w.r.HasSynced(), "the handler is not synced after its last call")
			w.agrees()
		},
	},
	{
		Law: "L19", Name: "a disconnect is followed by a watch, not by a list",
		server: apiservertest.Options{StreamingLists: apiservertest.StreamingListsRefused},
		play: func(p *play) {
			i, w := p.synced(Options{})
			before := p.lists()
			for n := range 10 {
				p.srv.Restart()
				p.put("a", fmt.Sprint(n))
				settle(2 * time.Minute)
			}
			p.want(p.lists() == before, "%d lists after ten disconnects", p.lists()-before)
			w.lawful()
			p.equal(i)
		},
	},
	{
		Law: "L19", Name: "an expired version is followed by one list",
		server: apiservertest.Options{StreamingLists: apiservertest.StreamingListsRefused},
		play: func(p *play) {
			i, _ := p.synced(Options{})
			before := p.lists()
			p.away(func() { p.put("a", "1") })
			p.want(p.lists()-before == 1, "%d lists after one expired version", p.lists()-before)
			p.equal(i)
		},
	},
	backsOff("refusals", apiservertest.Options{}, apiservertest.Fail{Code: http.StatusInternalServerError}),
	backsOff("lists cut short", apiservertest.Options{StreamingLists: apiservertest.StreamingListsRefused}, apiservertest.Truncate{Frame: 3}),
	backsOff("streams that break", apiservertest.Options{}, apiservertest.Cut{AfterBytes: 1000}),
	backsOff("streams that end too early", apiservertest.Options{}, apiservertest.Truncate{Frame: 3}),
	backsOff("garbled answers", apiservertest.Options{}, apiservertest.Garble{Frame: 0}),
	{
		Law: "L19", Name: "Retry-After is honoured",
		play: func(p *play) {
			i := p.informer(Options{})
			now("", 1, apiservertest.Fail{Code: http.StatusServiceUnavailable, RetryAfter: "50"})(p)
			p.run(i)
			settle(49 * time.Second)
			n := p.srv.Stats().Requests("", pods.Resource)
			p.want(n == 1, "%d requests within the 50 seconds of the first Retry-After", n)
			settle(time.Hour - 50*time.Second)
			n = p.srv.Stats().Requests("", pods.Resource)
			p.want(n >= 10 && n <= 160, "%d requests in an hour with a Retry-After of 50 seconds", n)
		},
	},
	{
		Law: "L20", Name: "an endless streaming list falls back to a list",
		play: func(p *play) {
			p.put("a", "1")
			now("watch", 1, apiservertest.WithholdEnd{})(p)
			i := p.informer(Options{})
			p.run(i)
			settle(time.Hour)
			p.want(i.HasSynced(), "not synced after an hour")
			p.equal(i)
		},
	},
	{
		Law: "L20", Name: "an unanswered list is aborted",
		server: apiservertest.Options{StreamingLists: apiservertest.StreamingListsRefused},
		play: func(p *play) {
			p.put("a", "1")
			p.fault("list", 1, apiservertest.Silence{})
			i := p.informer(Options{})
			p.run(i)
			settle(time.Hour)
			p.want(i.HasSynced(), "not synced an hour after one list was not answered")
			p.equal(i)
		},
	},
	{
		Law: "L20", Name: "a silent watch is reopened",
		play: func(p *play) {
			i, _ := p.synced(Options{})
			p.fault("watch", 1, apiservertest.Silence{AfterFrames: 1})
			p.srv.Restart()
			settle(time.Minute)
			p.put("a", "1")
			p.put("b", "1")
			settle(2 * time.Hour)
			p.equal(i)
		},
	},
	{
		Law: "L21", Name: "unreadable input is not skipped",
		play: func(p *play) {
			var reports errorList
			i := p.informer(Options{OnError: reports.add})
			p.run(i)
			settle(time.Minute)
			p.fault("watch", 1, apiservertest.Garble{Frame: 0})
			p.srv.Restart()
			p.put("a", "1")
			settle(time.Second)
			p.put("b", "1")
			settle(time.Hour)
			p.equal(i)
			p.want(len(reports.all()) > 0, "nothing was reported")
		},
	},
	{
		Law: "L21", Name: "a failing transform is reported and loses nothing",
		play: func(p *play) {
			var reports errorList
			var over atomic.Bool
			i := p.informer(Options{OnError: reports.add, Transform: func(o *corev1.Pod) (*corev1.Pod, error) {
				if o.Name == "b" && !over.Load() {
					return nil, errRefused
				}
				return o, nil
			}})
			p.put("a", "1")
			p.run(i)
			settle(time.Minute)
			p.put("b", "1")
			settle(10 * time.Minute)
			p.want(reports.mention(errRefused.Error()), "nothing was reported: %q", reports.all())
			over.Store(true)
			settle(time.Hour)
			p.equal(i)
		},
	},
	reports("a list that is refused", apiservertest.Options{StreamingLists: apiservertest.StreamingListsRefused}, "list", apiservertest.Fail{Code: http.StatusForbidden, Message: "tell-tale"}),
	reports("a watch that is refused", apiservertest.Options{}, "watch", apiservertest.Fail{Code: http.StatusForbidden, Message: "tell-tale"}),
	{
		Law: "L22", Name: "a watch that breaks is reported", Source: clientGo(224, 226),
		play: func(p *play) {
			var reports errorList
			i := p.informer(Options{OnError: reports.add})
			p.run(i)
			settle(time.Minute)
			now("watch", 1, apiservertest.Cut{AfterBytes: 100})(p)
			p.srv.Restart()
			for n := range 20 {
				p.put("a", fmt.Sprint(n))
				settle(time.Second)
			}
			p.want(len(reports.all()) > 0, "nothing was reported")
		},
	},
	{
		Law: "L22", Name: "waiting for the sync reports the reason",
		play: func(p *play) {
			i := p.informer(Options{})
			e := offered[Explaining](p, i)
			now("", 1, apiservertest.Fail{Code: http.StatusForbidden, Message: "tell-tale"})(p)
			p.run(i)
			err := await(p, func(ctx context.Context) error { return e.WaitForSync(ctx) })
			var reports errorList
			if p.want(err != nil, "the informer has synced"); err != nil {
				reports.add(err)
				p.want(reports.mention("pods") && reports.mention("tell-tale"), "the error names no cause: %v", err)
			}
		},
	},
}

// reports returns a case in which all requests with a given verb fail and the error handler must receive the
// error.
func reports(name string, server apiservertest.Options, verb string, do apiservertest.Action) Case {
	return Case{
		Law: "L22", Name: name + " is reported", Source: clientGo(224, 226), server: server,
		play: func(p *play) {
			var reports errorList
			now(verb, 1, do)(p)
			i := p.informer(Options{OnError: reports.add})
			p.run(i)
			settle(time.Minute)
			p.want(reports.mention("tell-tale"), "the cause was not reported: %q", reports.all())
		},
	}
}

// backsOff returns a case in which every request fails for an hour.
func backsOff(name string, server apiservertest.Options, do apiservertest.Action) Case {
	return Case{
		Law: "L19", Name: "backs off from " + name, server: server,
		play: func(p *play) {
			for n := range 20 {
				p.put(fmt.Sprint("pod-", n), "0")
			}
			i := p.informer(Options{})
			now("", 1, do)(p)
			p.run(i)
			settle(time.Hour)
			n := p.srv.Stats().Requests("", pods.Resource)
			p.want(n >= 10 && n <= 500, "%d requests in an hour of failures", n)
		},
	}
}

// lists returns the number of lists so far. Cases that call it disable streaming lists, because the server
// counts those as watches.
func (p *play) lists() int { return p.srv.Stats().Requests("list", pods.Resource) }

// anySeries runs one random sequence of faults.
func (p *play) anySeries(seed uint64) {
	p.writes.Store(0)
	rng := rand.New(rand.NewPCG(seed, 17))
	i := p.informer(Options{})
	w := p.witness(i)
	stop := p.run(i)
	defer stop()
	actions := []apiservertest.Action{
		apiservertest.Cut{AfterBytes: 500}, apiservertest.Cut{}, apiservertest.Truncate{Frame: 2}, apiservertest.Garble{Frame: 1},
		apiservertest.Fail{Code: 500}, apiservertest.Fail{Code: 429, RetryAfter: "1"}, apiservertest.Fail{Code: 410}, apiservertest.Compacted{},
		apiservertest.Delay{For: 3 * time.Second}, apiservertest.ErrorEvent{AfterFrames: 1, Status: expired}, apiservertest.NoBookmarks{},
	}
	for n := range 100 {
		switch name := fmt.Sprint("pod-", rng.IntN(12)); rng.IntN(10) {
		case 0:
			p.srv.Faults().Add(apiservertest.Fault{Resource: pods.Resource, Count: 1 + rng.IntN(3), Do: []apiservertest.Action{actions[rng.IntN(len(actions))]}})
		case 1:
			p.srv.Restart()
		case 2:
			p.srv.Compact()
		case 3:
			settle(time.Duration(rng.IntN(60_000)) * time.Millisecond)
		case 4:
			if _, err := p.srv.Get(pods, keyOf(name)); err == nil {
				p.delete(name)
			}
		default:
			p.put(name, fmt.Sprint(n))
		}
		settle(time.Duration(rng.IntN(500)) * time.Millisecond)
	}
	p.over()
	before := p.breakCount()
	p.want(i.HasSynced(), "the informer has not synced")
	p.equal(i)
	w.agrees()
	w.lawful()
	if p.breakCount() > before {
		p.breaks("that was seed %d", seed)
	}
}

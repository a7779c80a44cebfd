package laws

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/test/apiserver"
)

var (
	schedules = flag.Int("schedules", defaultSchedules, "how many fault schedules TestL17_AnyScheduleOfFaultsConverges plays")
	onlySeed  = flag.Int64("seed", -1, "play only the schedule of this seed, and say what happens")
)

// Each seed makes a schedule of changes, faults, restarts and waits. When it
// has been played and the server is well and quiet again, cache and handlers
// must have come to what the server holds; on the way the recorders check that
// every handler was told a consistent story.
func TestL17_AnyScheduleOfFaultsConverges(t *testing.T) {
	if *onlySeed >= 0 {
		playSchedule(t, uint64(*onlySeed), t.Logf)
		return
	}
	for seed := range *schedules {
		playSchedule(t, uint64(seed), func(string, ...any) {})
		if t.Failed() {
			t.Fatalf("seed %d failed; alone: go test ./test/laws -run TestL17_AnySchedule -seed %d -v", seed, seed)
		}
	}
}

// schedule is one play.
type schedule struct {
	*rig
	rand *rand.Rand
	say  func(string, ...any)
	opts apiserver.Options
	i    informer
	stop func() // nil while the informer does not run

	recorders []*recorder
}

func playSchedule(t *testing.T, seed uint64, say func(string, ...any)) {
	random := rand.New(rand.NewPCG(seed, 17))
	opts := apiserver.Options{
		Seed:           seed,
		History:        5 + random.IntN(100),
		BookmarkPeriod: time.Duration(1+random.IntN(60)) * time.Second,
		StreamingLists: apiserver.StreamingLists(random.IntN(3)),
	}
	inBubble(t, opts, func(r *rig) {
		if seed%5 == 4 {
			r.speakCBOR()
		}
		s := &schedule{rig: r, rand: random, say: say, opts: opts}
		s.begin()
		for range 20 + random.IntN(30) {
			s.step()
		}
		s.end()
	})
}

// begin makes an informer with random options, and handlers of both policies.
func (s *schedule) begin() {
	for n := range s.rand.IntN(30) {
		s.put(s.pod(fmt.Sprint("p", n)))
	}
	opts := sharedinformer.Options{
		Compact: s.rand.IntN(2) == 0,
		Initial: reflector.Initial(s.rand.IntN(3)),
		Timing:  reflector.Timing{WatchTimeout: time.Duration(5+s.rand.IntN(120)) * time.Second},
	}
	if opts.Initial != reflector.WatchList && s.rand.IntN(2) == 0 {
		opts.PageSize = int64(1 + s.rand.IntN(9))
	}
	if opts.Initial == reflector.WatchList && s.opts.StreamingLists == apiserver.StreamingListsRefused {
		opts.Initial = reflector.Auto // it would be refused for ever, as it should
	}
	s.say("informer: initial %s, page %d, compact %v, watch timeout %s; server: streaming lists %d",
		opts.Initial, opts.PageSize, opts.Compact, opts.Timing.WatchTimeout, s.opts.StreamingLists)
	opts.OnState = func(st reflector.Status) { s.say("  %s rv %s", st.State, st.RV) }
	opts.OnError = func(_ context.Context, f *failure.Failure) failure.Verdict {
		s.say("  failure %v", f)
		return failure.Retry
	}
	s.i = sharedinformer.New(s.source(), opts)
	s.start()
}

func (s *schedule) start() { s.stop = s.run(s.i) }

// step does one thing.
func (s *schedule) step() {
	switch n := s.rand.IntN(20); {
	case n < 8:
		s.change(1 + s.rand.IntN(20))
	case n < 12:
		s.fault()
	case n < 15:
		d := time.Duration(s.rand.ExpFloat64() * float64(10*time.Second))
		s.say("%s pass", d)
		time.Sleep(d)
	case n == 15:
		s.say("compaction")
		s.srv.Compact()
	case n == 16:
		s.say("restart")
		s.srv.Restart()
	case n == 17:
		s.say("down, changes, up")
		s.srv.Down()
		s.change(s.rand.IntN(10))
		time.Sleep(time.Duration(s.rand.IntN(40)) * time.Second)
		if s.rand.IntN(2) == 0 {
			s.srv.Compact()
		}
		s.srv.Up()
	case n == 18 && s.stop != nil:
		s.say("informer stops")
		s.stop()
		s.stop = nil
	case n == 18:
		s.say("informer starts")
		s.start()
	default:
		s.say("a handler joins")
		s.join()
	}
}

// join adds a handler that is slow now and then.
func (s *schedule) join() {
	h := record(s.T, s.i)
	slow := time.Duration(s.rand.IntN(3)) * 100 * time.Millisecond
	lag := sharedinformer.Lag(s.rand.IntN(2))
	reg := s.i.AddHandlerWith(handler(func(e event) {
		_ = h.Handle(s.ctx, e)
		time.Sleep(slow)
	}), sharedinformer.HandlerOptions{Lag: lag, Resync: time.Duration(s.rand.IntN(2)) * 97 * time.Second})
	if s.rand.IntN(5) == 0 {
		reg.Close()
		return
	}
	s.recorders = append(s.recorders, h)
}

// pod is a pod of one of a few kinds, whose parts informers share.
func (s *schedule) pod(name string, labels ...string) *corev1.Pod {
	p := pod(name, labels...)
	p.Spec.Containers = []corev1.Container{{Name: "main", Image: fmt.Sprint("registry.example/app:", s.rand.IntN(3))}}
	return p
}

func (s *schedule) change(times int) {
	s.say("%d changes", times)
	for range times {
		name := fmt.Sprint("p", s.rand.IntN(40))
		switch s.rand.IntN(5) {
		case 0:
			_ = s.srv.Delete(pods, object.Key{Namespace: "shop", Name: name})
		case 1: // another object under the same name
			_ = s.srv.Delete(pods, object.Key{Namespace: "shop", Name: name})
			s.put(s.pod(name))
		default:
			s.put(s.pod(name, fmt.Sprintf("n=%d", s.rand.IntN(1000))))
		}
		if s.rand.IntN(3) == 0 {
			time.Sleep(time.Duration(s.rand.IntN(300)) * time.Millisecond)
		}
	}
}

// fault plans something bad for the next requests.
func (s *schedule) fault() {
	frame := s.rand.IntN(8)
	actions := []apiserver.Action{
		apiserver.Delay{For: time.Duration(s.rand.IntN(90)) * time.Second},
		apiserver.Cut{AfterBytes: int64(s.rand.IntN(6000))},
		apiserver.Fail{Code: []int{429, 500, 503, 504}[s.rand.IntN(4)], RetryAfter: []string{"", "3", "1"}[s.rand.IntN(3)]},
		apiserver.Fail{Code: 410},
		apiserver.Compacted{},
		apiserver.Garble{Frame: frame},
		apiserver.Truncate{Frame: frame},
		apiserver.Oversize{Frame: frame, Size: 1 << 20},
		apiserver.WrongType{Frame: frame},
		apiserver.NoBookmarks{},
		apiserver.RepeatBookmarks{Times: 3},
		apiserver.Duplicate{Every: 1 + s.rand.IntN(4)},
		apiserver.Silence{AfterFrames: frame},
		apiserver.WithholdEnd{},
		apiserver.ErrorEvent{AfterFrames: frame, Status: metav1.Status{
			Status: metav1.StatusFailure, Code: 500, Reason: metav1.StatusReasonInternalError, Message: "planned"}},
		apiserver.ErrorEvent{AfterFrames: frame, Status: metav1.Status{
			Status: metav1.StatusFailure, Code: 410, Reason: metav1.StatusReasonExpired, Message: "planned"}},
	}
	f := apiserver.Fault{
		Verb:     []string{"", "list", "watch"}[s.rand.IntN(3)],
		Resource: "pods",
		Skip:     s.rand.IntN(2),
		Count:    1 + s.rand.IntN(3),
		Do:       []apiserver.Action{actions[s.rand.IntN(len(actions))]},
	}
	s.say("fault %T %+v for %d x %q", f.Do[0], f.Do[0], f.Count, f.Verb)
	s.srv.Faults().Add(f)
}

// end heals the server and compares.
func (s *schedule) end() {
	s.say("the end")
	s.srv.Faults().Clear()
	if s.stop == nil {
		s.start()
	}
	settle(30 * time.Minute)
	truth := s.truth()
	require.NoError(s, s.i.WaitForSync(s.ctx))
	require.Equal(s, truth, cached(s.i), "the cache")
	for _, o := range s.srv.Objects(pods) {
		held, _ := s.i.Cache().Get(object.KeyOf(o))
		require.Equal(s, o.(*corev1.Pod).Spec, held.Spec, "the content of %s", o.GetName())
	}
	for n, h := range s.recorders {
		require.Equal(s, truth, h.holds(), "handler %d", n)
	}
	require.NoError(s, s.i.WaitForRV(s.ctx, s.srv.RVOf(pods)), "the promise")
	st := s.i.Status()
	require.Zero(s, st.Reflector.Attempts, "all is well again")
	require.Equal(s, reflector.Watching, st.Reflector.State)
	require.False(s, st.Reflector.Unordered, "the versions grow")
}

package laws

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/internal/jitter"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/recording"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/wire"
)

// observed records the states, failures and events of an informer, in order.
type observed struct {
	Began time.Time

	mu                       sync.Mutex // guards the fields below
	States, Failures, Events []moment
	Final                    map[string]string
	RV                       string
}

// moment is an action of an informer with its time.
type moment struct {
	At       time.Duration
	Of, Text string // the namespace and the action
}

// duration matches times in messages. The recording does not contain the progress of unanswered
// requests, nor the times of that progress.
var duration = regexp.MustCompile(`\b([0-9]+h)?([0-9]+m)?[0-9]+(\.[0-9]+)?[mµ]?s\b`)

// note appends a moment.
func (o *observed) note(to *[]moment, of, format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	*to = append(*to, moment{time.Since(o.Began), of, fmt.Sprintf(format, args...)})
}

func (o *observed) options(initial reflector.Initial, namespaces []string) sharedinformer.Options {
	return sharedinformer.Options{
		Initial: initial, SyncPatience: -1, Namespaces: namespaces,
		OnState: func(s reflector.Status) {
			o.note(&o.States, s.Resource, "%s rv %s", s.State, s.RV)
		},
		OnError: func(_ context.Context, f *failure.Failure) failure.Verdict {
			text := fmt.Sprintf("%s %s %s: %s", f.Phase, f.Key, failure.Reason(f.Err), f.Err)
			o.note(&o.Failures, f.Resource, "%s", duration.ReplaceAllString(text, "TIME"))
			return failure.Retry
		},
	}
}

func (o *observed) event(_ context.Context, e sharedinformer.Event[*corev1.Pod]) error {
	o.note(&o.Events, e.Object.Namespace, "%s %s rv %s", e.Type, e.Object.Name, e.Object.ResourceVersion)
	return nil
}

// requireSame compares the recorded moments with the replayed ones, in their order and by their times. The
// order of several namespaces at one moment is a race that the recording cannot resolve, so a replay puts
// them a nanosecond apart.
func requireSame(t *testing.T, was, is []moment) {
	t.Helper()
	texts := func(all []moment) (texts []string) {
		for first, n := 0, 1; n <= len(all); n++ {
			if n == len(all) || all[n].At-all[n-1].At > time.Microsecond {
				slices.SortStableFunc(all[first:n], func(a, b moment) int { return cmp.Compare(a.Of, b.Of) })
				first = n
			}
		}
		for _, m := range all {
			texts = append(texts, m.Of+": "+m.Text)
		}
		return texts
	}
	require.Equal(t, texts(was), texts(is))
	for n := range was {
		require.InDelta(t, was[n].At, is[n].At, float64(time.Microsecond), "%v", was[n])
	}
}

// recorded records the effects of a random schedule of changes and faults on an informer.
func (o *observed) recorded(r *rig, path string, seed uint64, initial reflector.Initial, namespaces []string) {
	rng := rand.New(rand.NewPCG(seed, 2))
	recorder, err := recording.Create(path, recording.Options{})
	require.NoError(r, err)
	r.config.Recorder = recorder
	r.connect()
	for n := range 5 {
		for _, namespace := range namespaces {
			r.put(podIn(namespace, fmt.Sprint("p", n)))
		}
	}
	o.run(r, r.client, initial, namespaces, func(context.Context) {
		for range 40 {
			disturb(r, rng)
			for range rng.IntN(4 * len(namespaces)) {
				key := object.Key{Namespace: namespaces[rng.IntN(len(namespaces))], Name: fmt.Sprint("p", rng.IntN(8))}
				if rng.IntN(4) == 0 {
					_ = r.srv.Delete(pods, key) // the pod may not exist
				} else {
					r.put(podIn(key.Namespace, key.Name, fmt.Sprint("n=", rng.IntN(1000))))
				}
				time.Sleep(time.Duration(1+rng.IntN(3)) * time.Millisecond)
			}
			time.Sleep(time.Duration(rng.Int64N(int64(90 * time.Second))))
		}
		time.Sleep(15 * time.Minute)
	})
	require.NoError(r, recorder.Close())
}

// disturb injects a random fault, or none.
func disturb(r *rig, rng *rand.Rand) {
	verb := []string{"list", "watch", ""}[rng.IntN(3)]
	fault := func(a ...apiservertest.Action) {
		r.srv.Faults().Add(apiservertest.Fault{Verb: verb, Resource: "pods", Count: 1 + rng.IntN(3), Do: a})
	}
	frame := rng.IntN(4)
	switch rng.IntN(16) {
	case 0:
		fault(apiservertest.Fail{Code: []int{429, 500, 503, 504, 403}[rng.IntN(5)]})
	case 1:
		fault(apiservertest.Fail{Code: 429, RetryAfter: "3"})
	case 2:
		fault(apiservertest.Cut{AfterBytes: rng.Int64N(3000)})
	case 3:
		fault(apiservertest.Garble{Frame: frame})
	case 4:
		fault(apiservertest.Truncate{Frame: frame})
	case 5:
		fault(apiservertest.Silence{AfterFrames: frame})
	case 6:
		fault(apiservertest.ErrorEvent{AfterFrames: frame, Status: metav1.Status{Status: "Failure", Code: 410, Reason: metav1.StatusReasonExpired, Message: "too old"}})
	case 7:
		fault(apiservertest.WrongType{Frame: frame})
	case 8:
		fault(apiservertest.WithholdEnd{})
	case 9:
		r.srv.Compact()
		r.srv.Restart()
	case 10:
		r.srv.Restart()
	case 11:
		r.srv.Down()
		time.Sleep(time.Duration(rng.Int64N(int64(time.Minute))))
		r.srv.Up()
	case 12:
		fault(apiservertest.Duplicate{Every: 2})
	case 13:
		fault(apiservertest.Delay{For: time.Duration(rng.Int64N(int64(80 * time.Second)))})
	}
}

// run runs an informer during meanwhile, and records its moments.
func (o *observed) run(t testing.TB, client *rest.Client, initial reflector.Initial, namespaces []string, meanwhile func(ctx context.Context)) {
	t.Helper()
	o.watch(t, newInformer[*corev1.Pod](rest.ResourceFor[*corev1.Pod](client).Sharing(wire.NewPool()).Source(), o.options(initial, namespaces)), meanwhile)
}

// watch is like run, but for an existing informer.
func (o *observed) watch(t testing.TB, i *sharedinformer.Informer[*corev1.Pod], meanwhile func(ctx context.Context)) {
	t.Helper()
	o.Began = time.Now()
	h := record(t, i)
	i.AddHandler(h)
	i.AddHandler(sharedinformer.HandlerFunc[*corev1.Pod](o.event))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- i.Run(ctx) }()
	meanwhile(ctx)
	synctest.Wait()
	cancel()
	require.NoError(t, <-ended)
	o.Final, o.RV = h.holds(), i.Cache().RV()
}

// replayed replays a recording to another informer.
func (o *observed) replayed(t *testing.T, path string, initial reflector.Initial, namespaces []string) {
	o.replayedAt(t, 1, path, initial, namespaces)
}

// replayedAt is like replayed, but at the given speed.
func (o *observed) replayedAt(t *testing.T, speed float64, path string, initial reflector.Initial, namespaces []string) {
	synctest.Test(t, func(t *testing.T) {
		defer jitter.Longest()()
		file, err := recording.Open(path)
		require.NoError(t, err)
		defer func() { require.NoError(t, file.Close()) }()
		require.NoError(t, file.Damage)
		replay := file.Replay(recording.ReplayOptions{Speed: speed})
		client, err := rest.NewClient(&config.Config{Replay: replay}, sharedScheme())
		require.NoError(t, err)
		o.run(t, client, initial, namespaces, func(ctx context.Context) { require.NoError(t, replay.Wait(ctx)) })
	})
}

// A recording that is replayed in virtual time leads an informer through the same states, events and
// failures in the same order and at the same times.
func TestD02_RecordingReproducesTheRun(t *testing.T) {
	for seed := range uint64(10) {
		sameAgain(t, seed, "shop")
	}
}

// The same holds if the namespaces are read separately, because the order covers all of them.
func TestD02_SeveralNamespacesAreOneRun(t *testing.T) {
	for seed := range uint64(9) {
		sameAgain(t, seed, "bank", "mail", "shop")
	}
}

// sameAgain records a run, replays it and compares the replay with the run.
func sameAgain(t *testing.T, seed uint64, namespaces ...string) {
	initial := []reflector.Initial{reflector.Auto, reflector.List, reflector.WatchList}[seed%3]
	t.Run(fmt.Sprint("seed ", seed, ", ", initial), func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "pods.recording")
		var was, is observed
		inBubble(t, apiservertest.Options{Seed: seed}, func(r *rig) { was.recorded(r, path, seed, initial, namespaces) })
		is.replayed(t, path, initial, namespaces)
		require.Greater(t, len(was.Failures), 3, "nothing was broken")
		requireSame(t, was.Failures, is.Failures)
		requireSame(t, was.States, is.States)
		requireSame(t, was.Events, is.Events)
		require.Equal(t, was.Final, is.Final)
		require.Equal(t, was.RV, is.RV)
	})
}

// A recording may end while a client is backing off. Its replay ends at the same point.
func TestD02_ARecordingMayEndInABackOff(t *testing.T) {
	for _, more := range []time.Duration{time.Millisecond, time.Second, 10 * time.Second, time.Minute} {
		path := filepath.Join(t.TempDir(), "pods.recording")
		var was, is observed
		inBubble(t, apiservertest.Options{}, func(r *rig) {
			recorder, err := recording.Create(path, recording.Options{})
			require.NoError(r, err)
			r.config.Recorder = recorder
			r.connect()
			was.run(r, r.client, reflector.Auto, []string{"shop"}, func(context.Context) {
				r.put(pod("a"))
				time.Sleep(time.Minute)
				r.srv.Down()
				time.Sleep(more)
				require.NoError(r, recorder.Close())
			})
		})
		is.replayed(t, path, reflector.Auto, []string{"shop"})
		require.Contains(t, was.States[len(was.States)-2].Text, "BackingOff")
		requireSame(t, was.States, is.States)
		requireSame(t, was.Failures, is.Failures)
	}
}

// A watch that other watches had shown to be deaf, or that was mute, ends in a replay as it did in the
// recording. Then the informer asks the server for its version, whether the server's history went back
// or not.
func TestD02_RecordingOfAWatchThatDeliversNothing(t *testing.T) {
	for name, c := range map[string]struct{ deaf, back bool }{
		"deaf":                {true, false},
		"deaf, and went back": {true, true},
		"mute, and went back": {false, true},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "pods.recording")
			var was observed
			inBubble(t, apiservertest.Options{}, func(r *rig) {
				recorder, err := recording.Create(path, recording.Options{})
				require.NoError(r, err)
				r.config.Recorder = recorder
				r.connect()
				r.put(pod("a"))
				r.backup = r.srv.Snapshot()
				r.fill(20)
				i := newInformer[*corev1.Pod](r.source().Sharing(wire.NewPool()).Source(), was.options(reflector.Auto, []string{"shop"}))
				was.watch(r, i, func(context.Context) {
					time.Sleep(time.Minute)
					if c.back {
						r.restore() // a watch waits for later versions
					}
					time.Sleep(3 * time.Second)
					if c.deaf {
						i.Reconnect(reflector.ErrDeaf)
					}
					time.Sleep(time.Hour)
					r.put(pod("c"))
					time.Sleep(time.Minute)
				})
				require.NoError(r, recorder.Close())
			})
			require.NotEmpty(t, was.Failures)
			for _, speed := range []float64{1, 4} {
				var is observed
				is.replayedAt(t, speed, path, reflector.Auto, []string{"shop"})
				require.Equal(t, was.Final, is.Final)
				require.Equal(t, was.RV, is.RV)
				if speed == 1 {
					requireSame(t, was.Failures, is.Failures)
					requireSame(t, was.States, is.States)
					requireSame(t, was.Events, is.Events)
				}
			}
		})
	}
}

package laws

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/internal/jitter"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/recording"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/test/apiserver"
	"github.com/millrace-dev/millrace/wire"
)

// observed is what an informer went through, in order.
type observed struct {
	mu                       sync.Mutex // guards States and Failures
	States, Failures, Events []string
	Final                    map[string]string
	RV                       string
}

// duration is how messages write times. How long a client waited depends on its jitter.
var duration = regexp.MustCompile(`\b([0-9]+h)?([0-9]+m)?[0-9]+(\.[0-9]+)?s\b`)

func (o *observed) options(initial reflector.Initial) sharedinformer.Options {
	return sharedinformer.Options{
		Initial: initial, SyncPatience: -1,
		OnState: func(s reflector.Status) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.States = append(o.States, fmt.Sprintf("%s rv %s", s.State, s.RV))
		},
		OnError: func(_ context.Context, f *failure.Failure) failure.Verdict {
			o.mu.Lock()
			defer o.mu.Unlock()
			text := fmt.Sprintf("%s %s %s: %s", f.Phase, f.Key, failure.Reason(f.Err), f.Err)
			o.Failures = append(o.Failures, duration.ReplaceAllString(text, "TIME"))
			return failure.Retry
		},
	}
}

// recorded records what a random schedule of changes and faults does to an informer.
func (o *observed) recorded(r *rig, path string, seed uint64, initial reflector.Initial) {
	rng := rand.New(rand.NewPCG(seed, 2))
	recorder, err := recording.Create(path, recording.Options{})
	require.NoError(r, err)
	r.config.Recorder = recorder
	r.connect()
	for n := range 5 {
		r.put(pod(fmt.Sprint("p", n)))
	}
	o.run(r, r.client, initial, func(context.Context) {
		for range 40 {
			disturb(r, rng)
			for range rng.IntN(4) {
				name := fmt.Sprint("p", rng.IntN(8))
				if rng.IntN(4) == 0 {
					_ = r.srv.Delete(pods, object.Key{Namespace: "shop", Name: name}) // which may not be there
				} else {
					r.put(pod(name, fmt.Sprint("n=", rng.IntN(1000))))
				}
			}
			time.Sleep(time.Duration(rng.Int64N(int64(90 * time.Second))))
		}
		time.Sleep(15 * time.Minute)
	})
	require.NoError(r, recorder.Close())
}

// disturb breaks something, or nothing.
func disturb(r *rig, rng *rand.Rand) {
	verb := []string{"list", "watch", ""}[rng.IntN(3)]
	fault := func(a ...apiserver.Action) {
		r.srv.Faults().Add(apiserver.Fault{Verb: verb, Resource: "pods", Count: 1 + rng.IntN(3), Do: a})
	}
	frame := rng.IntN(4)
	switch rng.IntN(16) {
	case 0:
		fault(apiserver.Fail{Code: []int{429, 500, 503, 504, 403}[rng.IntN(5)]})
	case 1:
		fault(apiserver.Fail{Code: 429, RetryAfter: "3"})
	case 2:
		fault(apiserver.Cut{AfterBytes: rng.Int64N(3000)})
	case 3:
		fault(apiserver.Garble{Frame: frame})
	case 4:
		fault(apiserver.Truncate{Frame: frame})
	case 5:
		fault(apiserver.Silence{AfterFrames: frame})
	case 6:
		fault(apiserver.ErrorEvent{AfterFrames: frame, Status: metav1.Status{Status: "Failure", Code: 410, Reason: metav1.StatusReasonExpired, Message: "too old"}})
	case 7:
		fault(apiserver.WrongType{Frame: frame})
	case 8:
		fault(apiserver.WithholdEnd{})
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
		fault(apiserver.Duplicate{Every: 2})
	case 13:
		fault(apiserver.Delay{For: time.Duration(rng.Int64N(int64(80 * time.Second)))})
	}
}

// run has an informer run while something happens, and notes what came of it.
func (o *observed) run(t testing.TB, client *rest.Client, initial reflector.Initial, meanwhile func(ctx context.Context)) {
	t.Helper()
	i := newInformer(rest.ResourceFor[*corev1.Pod](client).Sharing(wire.NewPool()), o.options(initial))
	h := record(t, i)
	i.AddHandler(h)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- i.Run(ctx) }()
	meanwhile(ctx)
	synctest.Wait()
	cancel()
	require.NoError(t, <-ended)
	o.Events, o.Final, o.RV = h.heard(), h.holds(), i.Cache().RV()
}

// replayed plays a recording to another informer.
func (o *observed) replayed(t *testing.T, path string, initial reflector.Initial) {
	synctest.Test(t, func(t *testing.T) {
		defer jitter.Longest()()
		file, err := recording.Open(path)
		require.NoError(t, err)
		defer func() { require.NoError(t, file.Close()) }()
		require.NoError(t, file.Damage)
		replay := file.Replay(recording.ReplayOptions{})
		client, err := rest.NewClient(&config.Config{Replay: replay}, sharedScheme())
		require.NoError(t, err)
		o.run(t, client, initial, func(ctx context.Context) { require.NoError(t, replay.Wait(ctx)) })
	})
}

// Played back in virtual time, a recording leads an informer through the same states, events
// and failures in the same order.
func TestD02_ARecordingIsTheRun(t *testing.T) {
	for seed := range uint64(20) {
		initial := []reflector.Initial{reflector.Auto, reflector.List, reflector.WatchList}[seed%3]
		t.Run(fmt.Sprint("seed ", seed, ", ", initial), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "pods.recording")
			var was, is observed
			inBubble(t, apiserver.Options{Seed: seed}, func(r *rig) { was.recorded(r, path, seed, initial) })
			is.replayed(t, path, initial)
			require.Greater(t, len(was.Failures), 3, "nothing was broken")
			require.Equal(t, was.Failures, is.Failures)
			require.Equal(t, was.States, is.States)
			require.Equal(t, was.Events, is.Events)
			require.Equal(t, was.Final, is.Final)
			require.Equal(t, was.RV, is.RV)
		})
	}
}

package laws

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// spied is a running and synced informer with its requests, its reported failures and the events of its
// handler, without those up to the sync.
type spied struct {
	*sharedinformer.Informer[*corev1.Pod]
	source   *spy[*corev1.Pod]
	reported *failures
	handler  *recorder
	stop     func()
}

func (r *rig) spied(opts sharedinformer.Options) spied {
	r.Helper()
	s := spied{source: &spy[*corev1.Pod]{ListerWatcher: r.source().Source()}, reported: &failures{}}
	opts.OnError = s.reported.handle
	s.Informer = sharedinformer.New[*corev1.Pod](s.source, opts)
	s.handler = record(r, s.Informer)
	s.AddHandler(s.handler)
	s.stop = r.run(s.Informer)
	require.NoError(r, s.WaitForSync(r.ctx))
	synctest.Wait()
	s.source.heard()
	s.handler.heard()
	s.reported.heard()
	return s
}

// whichever runs a test with a list and with a streaming list.
func whichever(t *testing.T, opts apiservertest.Options, body func(r *rig, informer sharedinformer.Options)) {
	for name, informer := range map[string]sharedinformer.Options{"list": listing(), "stream": streaming()} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, opts, func(r *rig) { body(r, informer) })
		})
	}
}

// serverError is the Status of an ERROR event that does not lead to a list.
var serverError = metav1.Status{Status: metav1.StatusFailure, Code: 500, Reason: metav1.StatusReasonInternalError}

func TestL19_ADisconnectIsFollowedByOneWatchFromTheLastVersion(t *testing.T) {
	for name, disconnect := range map[string]func(r *rig){
		"restart":  func(r *rig) { r.srv.Restart() },
		"down, up": func(r *rig) { r.srv.Down(); r.srv.Up() },
	} {
		t.Run(name, func(t *testing.T) {
			whichever(t, apiservertest.Options{}, func(r *rig, opts sharedinformer.Options) {
				r.fill(3)
				i := r.spied(opts)
				last := r.put(pod("pa", "n=1"))
				synctest.Wait()
				lists := r.srv.Stats().Requests("list", "pods")
				before := i.Status().Reflector
				disconnect(r)
				missed := r.put(pod("pb", "n=2"))
				settle(2 * time.Second)

				log := i.source.heard()
				require.Equal(r, []string{"watch"}, verbs(log))
				require.Equal(r, last, log[0].opts.ResourceVersion)
				require.True(r, log[0].opts.AllowWatchBookmarks)
				require.Equal(r, lists, r.srv.Stats().Requests("list", "pods"))
				require.Equal(r, 1, r.srv.Stats().Open("watch", "pods"))
				require.Equal(r, []string{"update pa", "update pb"}, i.handler.heard())
				after := i.Status().Reflector
				require.Equal(r, before.Watches+1, after.Watches)
				require.Equal(r, before.Lists, after.Lists)
				require.Zero(r, after.Relists)
				require.Equal(r, missed, after.RV)
				require.Zero(r, after.Attempts)
			})
		})
	}
}

// No failure except an expired version leads to a list before watches have failed for a minute, if the
// server refuses them, or for ten minutes otherwise.
func TestL19_OtherFailuresDoNotCauseAList(t *testing.T) {
	for name, action := range map[string]apiservertest.Action{
		"cut":          apiservertest.Cut{AfterBytes: 1},
		"cut at once":  apiservertest.Cut{},
		"500":          apiservertest.Fail{Code: 500},
		"503":          apiservertest.Fail{Code: 503},
		"429":          apiservertest.Fail{Code: 429, RetryAfter: "1"},
		"403":          apiservertest.Fail{Code: 403},
		"401":          apiservertest.Fail{Code: 401},
		"404":          apiservertest.Fail{Code: 404},
		"504":          apiservertest.Fail{Code: 504},
		"error event":  apiservertest.ErrorEvent{AfterFrames: 1, Status: serverError},
		"garbled":      apiservertest.Garble{},
		"wrong type":   apiservertest.WrongType{},
		"early end":    apiservertest.Truncate{},
		"no bookmarks": apiservertest.NoBookmarks{},
	} {
		t.Run(name, func(t *testing.T) {
			whichever(t, apiservertest.Options{}, func(r *rig, opts sharedinformer.Options) {
				r.fill(3)
				i := r.spied(opts)
				id := r.fault("watch", action)
				switch action.(type) {
				case apiservertest.Garble, apiservertest.WrongType: // the third in a row is treated differently
					r.srv.Faults().Remove(id)
					id = r.srv.Faults().Add(apiservertest.Fault{Verb: "watch", Resource: "pods", Count: 2, Do: []apiservertest.Action{action}})
				}
				r.srv.Restart()
				r.put(pod("pa", "n=1"))
				lasts := 9 * time.Minute
				switch action := action.(type) {
				case apiservertest.ErrorEvent:
					lasts = 50 * time.Second
				case apiservertest.Fail:
					if action.RetryAfter == "" {
						lasts = 50 * time.Second
					}
				}
				settle(lasts)
				require.Positive(r, r.srv.Faults().Remove(id))
				settle(3 * time.Minute)
				for _, verb := range verbs(i.source.heard()) {
					if name == "no bookmarks" && verb == "probe" {
						continue // after a watch that was mute to its end, the server is asked for its version
					}
					require.Equal(r, "watch", verb)
				}
				r.inStep(i.Informer)
				require.Equal(r, []string{"update pa"}, i.handler.heard())
			})
		})
	}
}

// A change that cannot be decoded stays in the history even after the object was repaired. The informer
// skips it with a list after three watches, and then at growing intervals.
func TestL19_UnreadableChangeIsReplacedByAListAtIntervals(t *testing.T) {
	whichever(t, apiservertest.Options{}, func(r *rig, opts sharedinformer.Options) {
		r.fill(3)
		i := r.spied(opts)
		r.fault("watch", apiservertest.WrongType{})
		r.fault("list", apiservertest.WrongType{})
		r.srv.Down() // or the running watch would deliver it
		r.put(pod("pa", "n=1"))
		r.srv.Up()
		settle(time.Hour)
		lists := 0
		for _, a := range i.source.heard() {
			if a.verb == "list" {
				lists++
			}
		}
		require.Greater(r, lists, 3)
		require.Less(r, lists, 9, "ever more seldom")
		require.NotContains(r, i.handler.heard(), "update pa")

		r.srv.Faults().Clear()
		settle(3 * time.Minute)
		require.Equal(r, []string{"update pa"}, i.handler.heard())
		r.inStep(i.Informer)
	})
}

// A watch that the server closes normally is not a failure. The next one follows at once.
func TestL19_ANormalCloseIsFollowedByTheNextWatchAtOnce(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		r.fill(1)
		i := r.spied(streaming())
		settle(time.Hour)
		log := i.source.heard()
		require.GreaterOrEqual(r, len(log), 6)
		require.LessOrEqual(r, len(log), 12)
		require.Equal(r, []string{"watch"}, distinct(verbs(log)))
		for n, a := range log {
			lifetime := time.Duration(*a.opts.TimeoutSeconds) * time.Second
			r.within(5*time.Minute, 10*time.Minute, lifetime)
			if n+1 < len(log) {
				require.Equal(r, lifetime, log[n+1].at.Sub(a.at))
			}
		}
		require.Empty(r, i.reported.heard())
		require.Zero(r, i.Status().Reflector.Failures)
	})
}

func TestL19_AnExpiredVersionIsFollowedByOneConsistentRelist(t *testing.T) {
	gone := metav1.Status{Status: metav1.StatusFailure, Code: 410, Reason: metav1.StatusReasonExpired, Message: "too old"}
	for name, expire := range map[string]func(r *rig){
		"on opening": func(r *rig) {
			r.srv.Down()
			r.delete("pa")
			r.put(pod("pb", "n=1"))
			r.srv.Compact()
			r.srv.Up()
		},
		"as an answer": func(r *rig) {
			r.once("watch", apiservertest.Fail{Code: 410})
			r.srv.Restart()
			r.delete("pa")
			r.put(pod("pb", "n=1"))
		},
		"in the stream": func(r *rig) {
			r.once("watch", apiservertest.ErrorEvent{AfterFrames: 1, Status: gone})
			r.srv.Restart()
			r.delete("pa")
			r.put(pod("pb", "n=1"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			whichever(t, apiservertest.Options{}, func(r *rig, opts sharedinformer.Options) {
				r.fill(3)
				i := r.spied(opts)
				expire(r)
				settle(10 * time.Second)
				log := i.source.heard()
				names := verbs(log)
				for len(names) > 1 && names[0] == "watch" {
					names, log = names[1:], log[1:]
				}
				if opts.Initial == reflector.List {
					require.Equal(r, []string{"list", "watch"}, names)
					require.Empty(r, log[0].opts.ResourceVersion, "the cache that lagged must not answer")
				} else {
					require.Equal(r, []string{"stream"}, names)
					require.Empty(r, log[0].opts.ResourceVersion)
				}
				require.EqualValues(r, 1, i.Status().Reflector.Relists)
				heard := i.handler.heard()
				require.Len(r, heard, 2)
				require.Contains(r, []string{"delete pa", "delete pa unknown"}, heard[0])
				require.Equal(r, "update pb", heard[1])
				r.inStep(i.Informer)
			})
		})
	}
}

// If a long outage ends with an expired version, the list follows at once, without the back-off that had
// grown during the outage.
func TestL19_AnOutageThatEndsWithAnExpiredVersionIsOverAtOnce(t *testing.T) {
	whichever(t, apiservertest.Options{}, func(r *rig, opts sharedinformer.Options) {
		r.fill(3)
		i := r.spied(opts)
		r.srv.Down()
		r.delete("pa")
		settle(10 * time.Minute)
		r.srv.Compact()
		r.srv.Up()
		for waited := time.Duration(0); !apierrors.IsResourceExpired(i.Status().Reflector.Failure.Err); waited += 100 * time.Millisecond {
			require.Less(r, waited, time.Minute)
			settle(100 * time.Millisecond)
		}
		settle(1300 * time.Millisecond)
		r.inStep(i.Informer)
		require.EqualValues(r, 1, i.Status().Reflector.Relists)
	})
}

// If the token of a page expires during a list, the informer reads the list again from the start, and
// finally in one response.
func TestL19_AnExpiredPageIsFollowedByAWholeList(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		r.fill(5)
		source := &spy[*corev1.Pod]{ListerWatcher: r.source().Source()}
		r.srv.Faults().Add(apiservertest.Fault{Verb: "list", Resource: "pods", Skip: 1, Count: 1, Do: []apiservertest.Action{apiservertest.Fail{Code: 410}}})
		i := sharedinformer.New[*corev1.Pod](source, paged())
		defer r.run(i)()
		require.NoError(r, i.WaitForSync(r.ctx))
		r.inStep(i)
		log := source.heard()
		require.Equal(r, []string{"list", "list"}, verbs(log)[:2])
		require.EqualValues(r, 2, log[0].opts.Limit)
		require.Zero(r, log[1].opts.Limit)
		require.Empty(r, log[1].opts.ResourceVersion)
	})
}

func TestL19_RetryAfterIsHonoured(t *testing.T) {
	const asked = 47 * time.Second // more than a first back-off
	seconds := func() string { return strconv.Itoa(int(asked.Seconds())) }
	for name, retryAfter := range map[string]func() string{
		"seconds": seconds,
		"date":    func() string { return time.Now().Add(asked).UTC().Format(http.TimeFormat) },
	} {
		for _, code := range []int{429, 503} {
			for _, verb := range []string{"watch", "list"} {
				t.Run(strconv.Itoa(code)+" "+verb+" "+name, func(t *testing.T) {
					inBubble(t, apiservertest.Options{}, func(r *rig) {
						source := &spy[*corev1.Pod]{ListerWatcher: r.source().Source()}
						i := sharedinformer.New[*corev1.Pod](source, listing())
						r.once(verb, apiservertest.Fail{Code: code, RetryAfter: retryAfter()})
						defer r.run(i)()
						settle(time.Second)
						status := i.Status().Reflector
						require.Equal(r, reflector.BackingOff, status.State)
						r.within(asked-time.Second, asked*3/2, time.Until(status.RetryAt))
						settle(asked * 3 / 2)
						log := source.heard()
						if verb == "watch" {
							log = log[1:]
						}
						require.Equal(r, verb, log[0].verb)
						require.Equal(r, verb, log[1].verb)
						r.within(asked-time.Second, asked*3/2, log[1].at.Sub(log[0].at))
						require.True(r, i.HasSynced())
					})
				})
			}
		}
	}
	t.Run("in the stream", func(t *testing.T) {
		inBubble(t, apiservertest.Options{}, func(r *rig) {
			i := r.spied(listing())
			busy := metav1.Status{Status: metav1.StatusFailure, Code: 429, Reason: metav1.StatusReasonTooManyRequests,
				Details: &metav1.StatusDetails{RetryAfterSeconds: int32(asked.Seconds())}}
			r.once("watch", apiservertest.ErrorEvent{AfterFrames: 1, Status: busy})
			r.srv.Restart()
			settle(2 * time.Second)
			r.put(pod("a"))
			settle(2 * asked)
			log := i.source.heard()
			require.Equal(r, []string{"watch", "watch"}, verbs(log))
			r.within(asked, asked*3/2+2*time.Second, log[1].at.Sub(log[0].at))
		})
	})
}

// Each wait is between one and one and a half times twice the previous wait, bounded, and different for
// each client. Only a quiet period makes the waits short again.
func TestL19_BackOffGrowsWithJitterAndResetsAfterQuiet(t *testing.T) {
	backoff := reflector.Backoff{Initial: time.Second, Max: 20 * time.Second, Reset: time.Minute}
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		opts := listing()
		opts.Timing.Backoff = backoff
		i := r.spied(opts)
		fail := func(n int) (waits []time.Duration) {
			r.Helper()
			id := r.fault("watch", apiservertest.Fail{Code: 500})
			r.srv.Restart()
			for len(waits) < n {
				settle(0)
				if s := i.Status().Reflector; s.State == reflector.BackingOff {
					waits = append(waits, s.RetryAt.Sub(s.Since))
					settle(time.Until(s.RetryAt))
				}
			}
			r.srv.Faults().Remove(id)
			settle(time.Until(i.Status().Reflector.RetryAt) + time.Second)
			require.Equal(r, reflector.Watching, i.Status().Reflector.State)
			return waits
		}
		bounded := func(waits []time.Duration, base time.Duration) {
			r.Helper()
			exact := 0
			for _, wait := range waits {
				r.within(base, base*3/2, wait)
				if wait == base {
					exact++
				}
				base = min(2*base, backoff.Max)
			}
			require.Less(r, exact, len(waits), "no jitter in %v", waits)
		}
		bounded(fail(12), time.Second)
		waits := fail(3)
		bounded(waits, backoff.Max)
		settle(backoff.Reset)
		bounded(fail(4), time.Second)
	})
}

// If the history has always expired, the informer relists once per back-off.
func TestL19_ContinualCompactionMakesNoRelistStorm(t *testing.T) {
	gone := metav1.Status{Status: metav1.StatusFailure, Code: 410, Reason: metav1.StatusReasonExpired}
	for name, action := range map[string]apiservertest.Action{
		"on opening":    apiservertest.Fail{Code: 410},
		"in the stream": apiservertest.ErrorEvent{AfterFrames: 2, Status: gone},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, apiservertest.Options{}, func(r *rig) {
				i := r.spied(listing())
				id := r.fault("watch", action)
				r.srv.Restart()
				for n := range 720 {
					r.put(pod("a", "n="+strconv.Itoa(n)))
					settle(5 * time.Second)
				}
				lists := len(i.source.heard()) / 2
				require.Greater(r, lists, 60)
				require.Less(r, lists, 130, "in an hour, one in 30 to 45 s, and a few at first")
				r.srv.Faults().Remove(id)
				settle(time.Minute)
				r.inStep(i.Informer)
			})
		})
	}
}

// The informer does not loop if a server or proxy closes every watch at once.
func TestL19_WatchesThatBringNothingNewBackOff(t *testing.T) {
	old := pod("a")
	old.UID, old.ResourceVersion = "1", "7"
	quiet := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7"}}
	for name, frames := range map[string][]wire.Event[object.Head]{
		"empty":        nil,
		"old event":    {{Type: watch.Modified, Object: old}},
		"old bookmark": {{Type: watch.Bookmark, Object: quiet}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := &closing{frames: frames}
				i := sharedinformer.New[*corev1.Pod](source, listing())
				ended := make(chan error, 1)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go func() { ended <- i.Run(ctx) }()
				require.NoError(t, i.WaitForSync(ctx))
				time.Sleep(10 * time.Minute)
				require.Less(t, int(source.watches.Load()), 40)
				cancel()
				require.NoError(t, <-ended)
			})
		})
	}
}

// closing is a source that closes every watch after the same frames.
type closing struct {
	frames  []wire.Event[object.Head]
	watches atomic.Int64
}

func (c *closing) Describe() source.Description { return source.Description{} }

func (c *closing) List(context.Context, source.Request) source.List[object.Head] {
	none := func(func(object.Head, error) bool) {}
	return source.List[object.Head]{Items: none, Meta: &metav1.ListMeta{ResourceVersion: "7"}}
}

func (c *closing) Watch(context.Context, source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	if c.watches.Add(1) > 1000 {
		return nil, errors.New("too many watches")
	}
	return func(yield func(wire.Event[object.Head], error) bool) {
		for _, e := range c.frames {
			if !yield(e, nil) {
				return
			}
		}
	}, nil
}

package laws

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// A server that refuses every watch still serves lists. The lists keep the cache current, at most one a
// minute, and the status says so.
func TestL19_RefusedWatchesAreReplacedByLists(t *testing.T) {
	notFound := metav1.Status{Status: metav1.StatusFailure, Code: 404, Reason: metav1.StatusReasonNotFound}
	for name, action := range map[string]apiservertest.Action{
		"no such verb":         apiservertest.Fail{Code: 405},
		"forbidden":            apiservertest.Fail{Code: 403},
		"bad request":          apiservertest.Fail{Code: 400},
		"internal error":       apiservertest.Fail{Code: 500},
		"error event":          apiservertest.ErrorEvent{Status: serverError},
		"error event, no kind": apiservertest.ErrorEvent{Status: notFound},
	} {
		t.Run(name, func(t *testing.T) {
			whichever(t, apiservertest.Options{}, func(r *rig, opts sharedinformer.Options) {
				r.fill(3)
				i := r.spied(opts)
				id := r.fault("watch", action)
				r.srv.Restart()
				for range 10 {
					r.put(pod("pa", "n=1"))
					r.delete("pb")
					settle(3 * time.Minute)
					r.inStep(i.Informer)
					require.True(r, i.Status().Reflector.Polling)
					require.Less(r, i.Status().Reflector.Age(time.Now()), 3*time.Minute)
					r.put(pod("pb"))
					settle(3 * time.Minute)
					r.inStep(i.Informer)
				}
				var last time.Time
				for _, a := range i.source.heard() {
					if a.verb != "list" {
						continue
					}
					require.GreaterOrEqual(r, a.at.Sub(last), time.Minute)
					last = a.at
				}
				require.NotZero(r, last)

				r.srv.Faults().Remove(id)
				settle(3 * time.Minute)
				i.source.heard()
				r.put(pod("pa", "n=2"))
				settle(time.Hour)
				r.inStep(i.Informer)
				require.False(r, i.Status().Reflector.Polling)
				require.NotContains(r, verbs(i.source.heard()), "list", "the watch serves")
			})
		})
	}
}

// While a kind is polled, a list may also fail. It is retried at the same interval, and the status says
// how old the cache is.
func TestL17_RefusedWatchAndListAreRetried(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		r.fill(3)
		i := r.spied(listing())
		r.fault("watch", apiservertest.Fail{Code: 403})
		lists := r.fault("list", apiservertest.Fail{Code: 403})
		r.srv.Restart()
		r.put(pod("pa", "n=1"))
		settle(time.Hour)
		require.Greater(r, i.Status().Reflector.Age(time.Now()), 58*time.Minute)
		asked := verbs(i.source.heard())
		tried := len(slices.DeleteFunc(asked, func(verb string) bool { return verb != "list" }))
		require.Greater(r, tried, 20)
		require.Less(r, tried, 60)
		r.srv.Faults().Remove(lists)
		settle(3 * time.Minute)
		r.inStep(i.Informer)
		require.Less(r, i.Status().Reflector.Age(time.Now()), 3*time.Minute)
	})
}

// Watches that are never answered, or that end at once, are replaced by a list after ten minutes.
func TestL17_UnansweredWatchesAreReplacedByListsInTheEnd(t *testing.T) {
	for name, action := range map[string]apiservertest.Action{
		"cut at once": apiservertest.Cut{},
		"no answer":   apiservertest.Delay{For: time.Hour},
		"silent":      apiservertest.Silence{},
		"busy":        apiservertest.Fail{Code: 429, RetryAfter: "1"},
		"unavailable": apiservertest.Fail{Code: 503},
		"no gateway":  apiservertest.Fail{Code: 502},
		"cut later":   apiservertest.Cut{AfterBytes: 1},
	} {
		t.Run(name, func(t *testing.T) {
			whichever(t, apiservertest.Options{}, func(r *rig, opts sharedinformer.Options) {
				r.fill(3)
				i := r.spied(opts)
				r.fault("watch", action)
				r.srv.Restart()
				r.put(pod("pa", "n=1"))
				settle(9 * time.Minute)
				require.NotContains(r, verbs(i.source.heard()), "list")
				settle(25 * time.Minute)
				r.inStep(i.Informer)
				var last time.Time
				for _, a := range i.source.heard() {
					if a.verb == "list" {
						require.GreaterOrEqual(r, a.at.Sub(last), 10*time.Minute)
						last = a.at
					}
				}
			})
		})
	}
}

// After an outage of any length, the first answered request of each client is a watch.
func TestL19_NoListFollowsAnOutage(t *testing.T) {
	whichever(t, apiservertest.Options{}, func(r *rig, opts sharedinformer.Options) {
		r.fill(3)
		i := r.spied(opts)
		for _, down := range []time.Duration{45 * time.Second, 3 * time.Minute, 25 * time.Minute} {
			r.srv.Down()
			settle(down)
			i.source.heard()
			r.put(pod("pa", "n="+down.String()))
			refused := r.fault("watch", apiservertest.Fail{Code: 403}) // as by a server that has not loaded its rules yet
			r.srv.Up()
			settle(50 * time.Second)
			r.srv.Faults().Remove(refused)
			settle(2 * time.Minute)
			require.NotContains(r, verbs(i.source.heard()), "list", down)
			r.inStep(i.Informer)
		}
	})
}

// An outage behind a gateway that answers 502 or 503 counts as an outage, so watches follow it, not
// lists.
func TestL19_NoListFollowsAGatewayOutage(t *testing.T) {
	for _, code := range []int{502, 503, 504} {
		inBubble(t, apiservertest.Options{}, func(r *rig) {
			r.fill(3)
			lists, during := 0, 0
			var all []spied
			for range 10 {
				all = append(all, r.spied(listing()))
			}
			w, l := r.fault("watch", apiservertest.Fail{Code: code}), r.fault("list", apiservertest.Fail{Code: code})
			r.srv.Restart()
			settle(5 * time.Minute)
			for _, i := range all {
				for _, v := range verbs(i.source.heard()) {
					if v == "list" {
						during++
					}
				}
			}
			r.srv.Faults().Remove(w)
			r.srv.Faults().Remove(l)
			settle(3 * time.Minute)
			for _, i := range all {
				if v := verbs(i.source.heard()); len(v) > 0 && v[0] == "list" {
					lists++
				}
			}
			require.Zero(t, during, code)
			require.Zero(t, lists, code)
		})
	}
}

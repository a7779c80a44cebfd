package clientgo_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/millrace-dev/millrace/adapters/clientgo"
	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/metrics"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/rest/config"
)

var (
	_ metrics.InformerSource = (*clientgo.Observer)(nil)
	_ metrics.InformerSource = (*clientgo.Factory)(nil)
	_ metrics.InformerSource = (*clientgo.ResourceFactory)(nil)
)

func TestObservingClientGosInformer(t *testing.T) {
	on(t, stock, func(r *rig) {
		forbidden := r.srv.Faults().Add(apiservertest.Fault{Resource: "pods", Do: []apiservertest.Action{apiservertest.Fail{Code: 403, Reason: metav1.StatusReasonForbidden, Message: "no"}}})
		i := r.pods(10 * time.Minute)
		var observer clientgo.Observer
		var passedOn error
		observed, err := observer.Observe("pods", i, func(_ context.Context, _ *cache.Reflector, err error) { passedOn = err })
		require.NoError(r, err)
		release, again := make(chan struct{}), make(chan struct{})
		var hold atomic.Bool
		_, err = observed.AddEventHandler("slow", &diary{hook: func(string) {
			<-release
			if hold.Load() {
				<-again
			}
		}})
		require.NoError(r, err)
		r.run(i)
		settle(time.Minute)
		s := observer.Status()[0]
		require.False(r, s.Synced)
		require.Equal(r, reflector.BackingOff, s.Reflector.State)
		require.Greater(r, s.Reflector.Attempts, 2)
		require.ErrorContains(r, s.Reflector.Failure, "pods: list: forbidden: ")
		require.ErrorContains(r, s.Reflector.Failure, passedOn.Error())

		r.srv.Faults().Remove(forbidden)
		r.put(pod("a"))
		r.put(pod("b"))
		settle(time.Minute)
		s = observer.Status()[0]
		require.True(r, s.Synced)
		require.Equal(r, reflector.Watching, s.Reflector.State)
		require.Zero(r, s.Reflector.Attempts)
		require.NotNil(r, s.Reflector.Failure, "the last one stays to be seen")
		require.Nil(r, s.Failure)
		require.Equal(r, 2, s.Objects)
		require.Equal(r, i.LastSyncResourceVersion(), s.RV)
		h := s.Handlers[0]
		require.Equal(r, "slow", h.Name)
		require.Contains(r, h.Place, "clientgo/observer_test.go:")
		require.Equal(r, 2, h.Pending)
		require.Greater(r, h.Behind, 10*time.Second)
		require.False(r, h.Synced)

		close(release)
		synctest.Wait()
		late, err := observed.AddEventHandler("late", &diary{})
		require.NoError(r, err)
		settle(11 * time.Minute)
		s = observer.Status()[0]
		require.Zero(r, s.Handlers[0].Pending, "resyncs are not changes")
		require.Greater(r, s.Handlers[0].Slowest, 10*time.Second)
		require.True(r, s.Handlers[0].Synced)
		require.Zero(r, s.Handlers[1].Pending)
		require.True(r, late.HasSynced())

		hold.Store(true)
		r.put(pod("c"))
		synctest.Wait()
		require.Equal(r, 1, observer.Status()[0].Handlers[0].Pending)
		close(again)
	})
}

func TestObservingAStoppedInformer(t *testing.T) {
	on(t, stock, func(r *rig) {
		i := r.pods(0)
		var observer clientgo.Observer
		_, err := observer.Observe("pods", i, nil)
		require.NoError(r, err)
		r.run(i)
		r.cancel()
		r.runs.Wait()
		require.Equal(r, reflector.Stopped, observer.Status()[0].Reflector.State)
		_, err = observer.Observe("pods", i, nil)
		require.Error(r, err)
	})
}

func TestObservingARunningInformerReportsWhatItCannotSee(t *testing.T) {
	on(t, stock, func(r *rig) {
		i := r.pods(0)
		r.run(i)
		var observer clientgo.Observer
		_, err := observer.Observe("pods", i, nil)
		require.NoError(r, err)
		s := observer.Status()[0]
		require.Equal(r, reflector.Watching, s.Reflector.State)
		require.EqualError(r, s.Failure, "pods: options: failures to list and watch cannot be seen; observe the informer before it runs: informer has already started")
	})
}

func TestAHandlerThatJoinsAnObservedInformerInTheMiddleOfItsList(t *testing.T) {
	on(t, stock, func(r *rig) {
		r.put(pod("a"))
		r.put(pod("b"))
		i := r.pods(0)
		var observer clientgo.Observer
		observed, err := observer.Observe("pods", i, nil)
		require.NoError(r, err)
		hold := make(chan struct{})
		_, err = i.AddEventHandler(&diary{hook: func(line string) {
			if _, err := observed.AddEventHandler("from "+line, &diary{hook: func(string) { <-hold }}); err != nil {
				r.Error(err)
			}
		}})
		require.NoError(r, err)
		r.run(i)
		pending := func() (each []int) {
			for _, h := range observer.Status()[0].Handlers {
				each = append(each, h.Pending)
			}
			return each
		}
		before := pending()
		close(hold)
		synctest.Wait()
		require.Equal(r, []int{2, 2}, before)
		require.Equal(r, []int{0, 0}, pending())
	})
}

func TestAHandlerThatPanicsIsNotBehind(t *testing.T) {
	utilruntime.ReallyCrash = false // client-go recovers
	defer func() { utilruntime.ReallyCrash = true }()
	on(t, stock, func(r *rig) {
		i := r.pods(0)
		var observer clientgo.Observer
		observed, err := observer.Observe("pods", i, nil)
		require.NoError(r, err)
		_, err = observed.AddEventHandler("panics", &diary{hook: func(string) { panic("boom") }})
		require.NoError(r, err)
		r.run(i)
		r.put(pod("a"))
		synctest.Wait()
		h := observer.Status()[0].Handlers[0]
		require.EqualValues(r, 1, h.Panics)
		require.Zero(r, h.Pending)
	})
}

func TestObjectsAddedToTheStoreAreNotPending(t *testing.T) {
	on(t, stock, func(r *rig) {
		i := r.pods(0)
		require.NoError(r, i.GetStore().Add(pod("a")))
		var observer clientgo.Observer
		observed, err := observer.Observe("pods", i, nil)
		require.NoError(r, err)
		_, err = observed.AddEventHandler("early", &diary{})
		require.NoError(r, err)
		r.run(i)
		require.Zero(r, observer.Status()[0].Handlers[0].Pending)
	})
}

func TestARemovedHandlerIsNotBehind(t *testing.T) {
	on(t, stock, func(r *rig) {
		i := r.pods(0)
		var observer clientgo.Observer
		observed, err := observer.Observe("pods", i, nil)
		require.NoError(r, err)
		handlers := func() (names []string) {
			synctest.Wait()
			for _, h := range observer.Status()[0].Handlers {
				names = append(names, h.Name)
			}
			return names
		}
		hold := make(chan struct{})
		registrations := map[string]cache.ResourceEventHandlerRegistration{}
		for _, name := range []string{"early", "slow", "stays"} {
			d := &diary{}
			if name == "slow" {
				d.hook = func(string) { <-hold }
			}
			registrations[name], err = observed.AddEventHandler(name, d)
			require.NoError(r, err)
		}
		require.NoError(r, i.RemoveEventHandler(registrations["early"]))
		r.run(i)
		require.Equal(r, []string{"slow", "stays"}, handlers())
		r.put(pod("a"))
		synctest.Wait()
		require.NoError(r, i.RemoveEventHandler(registrations["slow"]))
		require.Equal(r, []string{"slow", "stays"}, handlers(), "it is still called")
		close(hold)
		require.Equal(r, []string{"stays"}, handlers())
		r.cancel()
		r.runs.Wait()
		require.Equal(r, []string{"stays"}, handlers(), "it was not removed")
	})
}

// The manager shows Millrace's diagnosis of client-go's own informers.
func TestAManagerShowsObservedInformers(t *testing.T) {
	on(t, stock, func(r *rig) {
		forbidden := r.srv.Faults().Add(apiservertest.Fault{Resource: "pods", Do: []apiservertest.Action{apiservertest.Fail{Code: 403, Reason: metav1.StatusReasonForbidden, Message: "no"}}})
		i := r.pods(0)
		var observer clientgo.Observer
		observed, err := observer.Observe("pods", i, nil)
		require.NoError(r, err)
		_, err = observed.AddEventHandler("my handler", &diary{})
		require.NoError(r, err)
		m, err := manager.New(&config.Config{Host: r.cfg.Host, Dial: r.cfg.Dial, Namespace: "shop"}, manager.Options{})
		require.NoError(r, err)
		require.NoError(r, m.AddInformers("client-go", &observer))
		r.runs.Go(func() { _ = m.Run(r.ctx) })
		r.run(i)
		settle(time.Minute)
		ask := func(h http.Handler, path string) string {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
			return w.Body.String()
		}
		require.Contains(r, ask(m.Probes(), "/readyz"), "[-] informers-client-go: not synced: pods: list: forbidden: ")
		page, err := json.Marshal(m.Report()) // as /debug/status shows it
		require.NoError(r, err)
		require.Contains(r, string(page), `"State":"BackingOff"`)
		require.Contains(r, string(page), "pods: list: forbidden: ")

		r.srv.Faults().Remove(forbidden)
		settle(time.Minute)
		require.Equal(r, "ok\n", ask(m.Probes(), "/readyz"))
		shown := ask(m.Metrics().Handler(), "/metrics")
		require.Contains(r, shown, `millrace_informer_synced{cluster="client-go",resource="pods"} 1`)
		require.Contains(r, shown, `millrace_informer_handler_synced{cluster="client-go",handler="my handler",`)
	})
}

package apiservertest_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/object"
)

// withFront calls body with two servers of one cluster, in a bubble.
func withFront(t *testing.T, opts apiservertest.Options, of apiservertest.FrontOptions, body func(t *testing.T, r, f *rig)) {
	t.Helper()
	inBubble(t, opts, func(t *testing.T, r *rig) {
		front := r.Front(of)
		endpoint, err := front.Pipe()
		require.NoError(t, err)
		transport := &http.Transport{DialContext: endpoint.DialContext, DisableCompression: true}
		defer front.Close()
		defer transport.CloseIdleConnections()
		body(t, r, &rig{Server: front, t: t, url: endpoint.URL, client: &http.Client{Transport: transport}})
	})
}

const podList = "/api/v1/pods"

// eventOf parses one line of a watch.
func eventOf(t *testing.T, line []byte) event {
	t.Helper()
	var e event
	require.NoError(t, json.Unmarshal(line, &e), "%s", line)
	return e
}

// all drains a channel until it is closed.
func all(events <-chan string) (list []string) {
	for e := range events {
		list = append(list, e)
	}
	return list
}

// took returns the duration of do.
func took(do func()) time.Duration {
	start := time.Now()
	do()
	return time.Since(start)
}

func TestAFrontLags(t *testing.T) {
	withFront(t, apiservertest.Options{}, apiservertest.FrontOptions{Lag: 10 * time.Second}, func(t *testing.T, r, f *rig) {
		r.create(pod("default", "a"))
		time.Sleep(4 * time.Second)
		r.create(pod("default", "b"))

		l := f.list(podList + "?resourceVersion=0")
		require.Empty(t, l.Items)
		require.Equal(t, "100", l.Metadata.ResourceVersion)
		require.Equal(t, "102", r.list(podList+"?resourceVersion=0").Metadata.ResourceVersion)
		require.EqualValues(t, 404, f.status("GET", "/api/v1/namespaces/default/pods/a?resourceVersion=0", "").Code)
		code, _, _ := f.do("GET", "/api/v1/namespaces/default/pods/a", "")
		require.Equal(t, 200, code, "a get without a version reads the store")

		require.Equal(t, 3*time.Second, took(func() {
			l := f.list(podList)
			require.Equal(t, []string{"a", "b"}, l.names(), "the store answers at last")
			require.Equal(t, "102", l.Metadata.ResourceVersion)
		}))
		require.Equal(t, []string{"a", "b"}, f.list(podList+"?resourceVersion=102&resourceVersionMatch=Exact").names())
		require.Equal(t, "100", f.Seen())
		require.Equal(t, 3*time.Second, took(func() { // until a is seen
			l := f.list(podList + "?resourceVersion=101")
			require.Equal(t, []string{"a"}, l.names())
			require.Equal(t, "101", l.Metadata.ResourceVersion)
		}))
		require.Equal(t, 3*time.Second, took(func() {
			status := f.status("GET", podList+"?resourceVersion=102", "")
			require.EqualValues(t, 504, status.Code)
			require.Equal(t, metav1.CauseTypeResourceVersionTooLarge, status.Details.Causes[0].Type)
			require.Contains(t, status.Message, "Too large resource version: 102, current: 101")
		}))
		require.Equal(t, time.Second, took(func() { // until b is seen, which is fresh enough
			require.Equal(t, []string{"a", "b"}, f.list(podList).names())
		}))
		require.Equal(t, "102", f.Seen())
	})
}

func TestAFrontsWatchLags(t *testing.T) {
	opts := apiservertest.Options{BookmarkPeriod: 20 * time.Second}
	withFront(t, opts, apiservertest.FrontOptions{Lag: 30 * time.Second}, func(t *testing.T, r, f *rig) {
		start := time.Now()
		events := make(chan string, 100)
		follow := func(query string) {
			w := f.watch(podList + "?watch=1&allowWatchBookmarks=true&timeoutSeconds=70" + query)
			go func() {
				defer close(events)
				for w.lines.Scan() {
					events <- fmt.Sprint(time.Since(start), " ", eventOf(t, w.lines.Bytes()))
				}
			}()
		}
		time.AfterFunc(time.Second, func() { r.create(pod("default", "a")) })
		time.AfterFunc(35*time.Second, func() { r.create(pod("default", "b")) })
		follow("&resourceVersion=100")
		require.Equal(t, []string{"20s BOOKMARK @100", "31s ADDED a@101", "40s BOOKMARK @101", "1m0s BOOKMARK @101", "1m5s ADDED b@102", "1m8s BOOKMARK @102"}, all(events))

		start = time.Now()
		r.create(pod("default", "c"), pod("default", "d"))
		events = make(chan string, 100)
		follow("&resourceVersion=103")
		require.Equal(t, []string{"30s ADDED d@104", "40s BOOKMARK @104", "1m0s BOOKMARK @104", "1m8s BOOKMARK @104"}, all(events),
			"it begins at once and says nothing of what the client knows, nor that it is behind")
	})
}

func TestAFrontsStreamingListIsFresh(t *testing.T) {
	const query = podList + "?watch=1&allowWatchBookmarks=true&timeoutSeconds=5&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
	withFront(t, apiservertest.Options{}, apiservertest.FrontOptions{Lag: 2 * time.Second}, func(t *testing.T, r, f *rig) {
		r.create(pod("default", "a"))
		events, err := f.watch(query + "&resourceVersion=0").rest()
		require.NoError(t, err)
		require.Equal(t, []string{"BOOKMARK @100 end", "ADDED a@101", "BOOKMARK @101"}, events)

		r.create(pod("default", "b"))
		events, err = f.watch(query).rest()
		require.NoError(t, err)
		require.Equal(t, []string{"ADDED a@101", "ADDED b@102", "BOOKMARK @102 end", "BOOKMARK @102"}, events[:4], "once all is seen")

		f.SetLag(time.Minute)
		r.create(pod("default", "c"))
		events, err = f.watch(query).rest()
		require.NoError(t, err)
		require.Equal(t, []string{"ERROR 504 Timeout: Timeout: Too large resource version: 103, current: 102"}, events)
	})
}

func TestAFrontIsStuck(t *testing.T) {
	opts := apiservertest.Options{History: 3}
	withFront(t, opts, apiservertest.FrontOptions{}, func(t *testing.T, r, f *rig) {
		r.create(pod("default", "a"))
		f.SetStuck(true)
		w := f.watch(podList + "?watch=1&resourceVersion=" + f.Seen())
		for n := range 20 { // more than the history
			r.create(pod("default", fmt.Sprint("n", n)))
		}
		require.NoError(t, r.Delete(pods, keyOf("default", "a")))
		time.Sleep(10 * time.Minute)
		l := f.list(podList + "?resourceVersion=0")
		require.Equal(t, []string{"a"}, l.names())
		require.Equal(t, "101", l.Metadata.ResourceVersion)
		r.Compact()
		code, _, _ := f.do("PATCH", "/api/v1/namespaces/default/pods/n0", `{"metadata":{"labels":{"a":"b"}}}`, "Content-Type", "application/merge-patch+json")
		require.Equal(t, 200, code, "writes go to the store")
		require.Equal(t, "101", f.Seen())

		f.SetStuck(false)
		for n := range 20 {
			require.Equal(t, fmt.Sprintf("ADDED n%d@%d", n, 102+n), w.next())
		}
		require.Equal(t, "DELETED a@122", w.next())
		require.Equal(t, "MODIFIED n0@123", w.next())
		require.Equal(t, f.RV(), f.Seen())
	})
}

// A front has its own endpoints, faults and counters, and goes up and down on its own.
func TestFrontIsIndependentOfTheServer(t *testing.T) {
	withFront(t, apiservertest.Options{}, apiservertest.FrontOptions{}, func(t *testing.T, r, f *rig) {
		f.Faults().Add(apiservertest.Fault{Verb: "list", Do: []apiservertest.Action{apiservertest.Fail{Code: 500}}})
		code, _, _ := f.do("GET", podList, "")
		require.Equal(t, 500, code)
		r.list(podList)
		require.Equal(t, 1, r.Stats().Answers("list", "pods", 200))
		require.Zero(t, r.Stats().Answers("list", "pods", 500))
		w := r.watch(podList + "?watch=1&resourceVersion=100")
		f.Down()
		_, err := f.client.Get(f.url + podList)
		require.Error(t, err)
		r.create(pod("default", "a"))
		require.Equal(t, "ADDED a@101", w.next())
		f.Up()
		f.SetAuthorizer(apiservertest.Deny("", "pods", "list"))
		require.EqualValues(t, 403, r.status("GET", podList, "").Code, "rights are the cluster's")
	})
}

func TestARestartBeginsAnotherWatchCache(t *testing.T) {
	opened := func(r *rig, rv int) string {
		events, err := r.watch(fmt.Sprintf(podList+"?watch=1&timeoutSeconds=1&resourceVersion=%d", rv)).rest()
		require.NoError(r.t, err)
		return fmt.Sprint(events)
	}
	withFront(t, apiservertest.Options{History: 4}, apiservertest.FrontOptions{}, func(t *testing.T, r, f *rig) {
		r.create(pod("default", "a"), pod("default", "b"), pod("default", "c"))
		w := f.watch(podList + "?watch=1&resourceVersion=103")
		f.RestartCold(2)
		_, err := w.rest()
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.Equal(t, "[ERROR 410 Expired: too old resource version: 102 (103)]", opened(f, 102))
		require.Equal(t, "[]", opened(f, 103))
		require.Equal(t, "[ADDED c@103]", opened(r, 102), "the other server was not restarted")
		require.Equal(t, []string{"a", "b"}, f.list(podList+"?resourceVersion=102&resourceVersionMatch=Exact").names(), "etcd knows")

		r.create(pod("default", "d"), pod("default", "e"), pod("default", "f"))
		require.Equal(t, "[ERROR 410 Expired: too old resource version: 103 (104)]", opened(f, 103), "it holds two changes")
		require.Equal(t, "[ADDED e@105 ADDED f@106]", opened(f, 104))

		f.RestartCold(30)
		for n := range 30 {
			r.create(pod("default", fmt.Sprint("n", n)))
		}
		require.Contains(t, opened(f, 106), "[ADDED n0@107 ")
	})
}

func TestUpgradeReadsOtherDefaults(t *testing.T) {
	withFront(t, apiservertest.Options{}, apiservertest.FrontOptions{}, func(t *testing.T, r, f *rig) {
		r.create(pod("default", "a"))
		w := f.watch(podList + "?watch=1&resourceVersion=101")
		require.NoError(t, f.Upgrade(pods, func(o object.Object) {
			if p := o.(*corev1.Pod); p.Spec.PriorityClassName == "" {
				p.Spec.PriorityClassName = "new"
			}
		}))
		_, err := w.rest()
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		class := func(s *rig, path string) string {
			_, raw, _ := s.do("GET", path, "")
			var p struct {
				Spec     corev1.PodSpec
				Metadata metav1.ObjectMeta
			}
			require.NoError(t, json.Unmarshal(raw, &p), "%s", raw)
			return p.Spec.PriorityClassName + "@" + p.Metadata.ResourceVersion
		}
		const a, b = "/api/v1/namespaces/default/pods/a", "/api/v1/namespaces/default/pods/b"
		require.Equal(t, "new@101", class(f, a))
		require.Equal(t, "@101", class(r, a), "the other server was not upgraded")
		require.Equal(t, "new", f.Objects(pods)[0].(*corev1.Pod).Spec.PriorityClassName)
		require.Empty(t, r.Objects(pods)[0].(*corev1.Pod).Spec.PriorityClassName)

		f.create(pod("default", "b"))
		require.Equal(t, "new@102", class(r, b), "created with it")
		code, _, _ := f.do("PATCH", a, `{"metadata":{"labels":{"x":"y"}}}`, "Content-Type", "application/merge-patch+json")
		require.Equal(t, 200, code)
		require.Equal(t, "new@103", class(r, a), "what is written was read with it")

		r.create(pod("default", "c"))
		resp := f.open("GET", podList+"?watch=1&timeoutSeconds=1&resourceVersion=103", "")
		raw, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Contains(t, string(raw), `"priorityClassName":"new"`)
		require.NoError(t, f.Upgrade(pods, nil))
		require.Equal(t, "@104", class(f, "/api/v1/namespaces/default/pods/c"))
		require.Error(t, f.Upgrade(object.GVR{Resource: "nothing"}, nil))
	})
}

// Watches of a server that lags, sticks, restarts and compacts still converge to the
// actual state and never go back.
func TestWatchersOfALaggingFrontEndUpWithTheTruth(t *testing.T) {
	for seed := range uint64(20) {
		withFront(t, apiservertest.Options{Seed: seed, FirstRV: 1_000_000, History: 10}, apiservertest.FrontOptions{}, func(t *testing.T, r, f *rig) {
			random := rand.New(rand.NewPCG(seed, 2))
			var followers []*follower
			for range 200 {
				r.randomWrite(random)
				synctest.Wait() // let the watches catch up: History is short
				switch random.IntN(12) {
				case 0:
					f.SetLag(time.Duration(random.IntN(5)) * time.Second)
				case 1:
					f.SetStuck(random.IntN(2) == 0)
				case 2:
					r.Compact()
				case 3, 4:
					time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
				case 5:
					path := podList + "?labelSelector=app=a"
					l := f.list(path + "&resourceVersion=0")
					before := &follower{path: path, known: map[string]string{}}
					for _, item := range l.Items {
						before.known[item.Metadata.Namespace+"/"+item.Metadata.Name] = item.Metadata.ResourceVersion
					}
					resp := f.open("GET", path+"&watch=1&resourceVersion="+l.Metadata.ResourceVersion, "")
					followers = append(followers, before)
					go before.follow(resp.Body)
				}
			}
			f.SetStuck(false)
			f.SetLag(0)
			synctest.Wait()
			require.Equal(t, r.RV(), f.Seen())
			require.NotEmpty(t, followers)
			for _, w := range followers {
				require.NoError(t, w.err)
				require.Equal(t, r.versions(w.path), w.known, "seed %d", seed)
			}
		})
	}
}

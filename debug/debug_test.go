package debug_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/workqueue"
)

// direct calls a handler without a network.
type direct struct{ http.Handler }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w.Result(), nil
}

// attached returns a client of p.
func attached(p *debug.Process) *debug.Client {
	return debug.Attach("http://here", &http.Client{Transport: direct{p}})
}

func pod(namespace, name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": name[:1]},
			Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: "applied-before"}},
		Spec: corev1.PodSpec{NodeName: node},
	}
}

// Two clusters have informers of the same name: each is selected by its Which.
func TestTheOwnClusterAmongOthers(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		controllertest.Put(e, pod("shop", "p", "n"))
		factory.Informer[*corev1.Pod](e.Factory)
		e.Factory.Start(e.Context())
		require.NoError(e, e.Factory.WaitForSync(e.Context()))
		client := attached(debug.New(debug.Options{Informers: func() []debug.Cluster {
			return []debug.Cluster{{Informers: e.Factory}, {Name: "east", Informers: e.Factory}}
		}}))
		s, err := client.Status(e.Context())
		require.NoError(e, err)
		for n, cluster := range []string{"", "east"} {
			o, err := client.Object(e.Context(), s.Informers[n].Which(), object.Key{Namespace: "shop", Name: "p"})
			require.NoError(e, err)
			require.Equal(e, cluster, o.Cluster)
		}
		_, err = client.Object(e.Context(), debug.Which{Informer: "pods"}, object.Key{Namespace: "shop", Name: "p"})
		require.ErrorContains(e, err, "Several informers match")
	})
}

// A client gets the same data as the process's own parts report.
func TestAClientSeesTheProcess(t *testing.T) {
	for _, store := range []sharedinformer.Store{sharedinformer.Whole, sharedinformer.Packed} {
		t.Run(store.String(), func(t *testing.T) {
			recorder := flight.New(flight.DefaultSize)
			options := controllertest.Options{Factory: factory.Options{Store: store, Flight: recorder}}
			controllertest.RunWith(t, options, func(e *controllertest.Env) { see(e, store, recorder) })
		})
	}
}

func see(e *controllertest.Env, store sharedinformer.Store, recorder *flight.Recorder) {
	ctx := e.Context()
	pods := factory.Informer[*corev1.Pod](e.Factory)
	sharedinformer.AddIndex(pods, "node", func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
	c, err := controller.New("keeper", controller.Func(func(ctx context.Context, r controller.Request) (controller.Result, error) {
		if r.Name == "slow" {
			<-ctx.Done()
		}
		if r.Name == "bad" {
			return controller.Result{}, fmt.Errorf("it is bad")
		}
		return controller.Result{}, nil
	}), controller.Options{Concurrency: 4, Flight: recorder})
	require.NoError(e, err)
	c.Watch(controller.For(pods))
	queue := workqueue.New(workqueue.Options[object.Key]{Name: "mine", Timestamps: true})
	process := debug.New(debug.Options{
		Recorder: recorder, Program: "test", Informers: debug.Of(e.Factory), Contents: true,
		Controllers: func() []controller.View { return []controller.View{c} },
		Queues:      func() []debug.Queue { return []debug.Queue{debug.QueueOf(queue, object.FormatKey)} },
	})
	client := attached(process)
	for n := range 25 {
		controllertest.Put(e, pod("shop", fmt.Sprintf("p%02d", n), fmt.Sprint("n", n/20)))
	}
	controllertest.Put(e, pod("bank", "zero", "n0"))
	controllertest.Put(e, pod("shop", "slow", ""))
	e.Start(c)
	controllertest.Put(e, pod("shop", "late", ""))
	controllertest.Put(e, pod("shop", "bad", ""))
	queue.Add(object.Key{Namespace: "a", Name: "b"})
	time.Sleep(time.Second)

	s, err := client.Status(ctx)
	require.NoError(e, err)
	require.Equal(e, "test", s.Process.Program)
	require.Len(e, s.Informers, 1)
	own := pods.Status()
	require.Equal(e, own.Reflector.State, s.Informers[0].Reflector.State)
	require.Equal(e, store, s.Informers[0].Store)
	require.Equal(e, "*v1.Pod", s.Informers[0].Type)
	require.Equal(e, own.Objects, s.Informers[0].Objects)
	require.Equal(e, own.Handlers[0].Place, s.Informers[0].Handlers[0].Place)
	require.Equal(e, own.Handlers[0].Delivered, s.Informers[0].Handlers[0].Delivered)
	require.Equal(e, c.Status().Successes, s.Controllers[0].Successes)
	require.EqualError(e, s.Controllers[0].Failure.Err, "it is bad")
	require.Equal(e, controller.Running, s.Controllers[0].State)
	require.Equal(e, "mine", s.Queues[0].Name)
	require.NotZero(e, s.Memory.HeapBytes) // possibly nothing was collected yet
	require.Equal(e, own.Objects, s.Memory.CachedCount)
	require.NotEmpty(e, s.Recorder.Tracks)

	which := debug.Which{Informer: "pods"}
	var keys []string
	page := debug.Page{Limit: 10}
	for {
		o, err := client.Objects(ctx, which, page)
		require.NoError(e, err)
		require.True(e, o.Synced)
		require.Equal(e, own.Objects, o.Cached)
		require.Equal(e, pods.Cache().RV(), o.RV)
		for _, h := range o.Heads {
			keys = append(keys, h.Namespace+"/"+h.Name)
		}
		if page.Continue = o.Continue; page.Continue == "" {
			break
		}
	}
	require.Len(e, keys, own.Objects)
	require.IsIncreasing(e, keys)
	some, err := client.Objects(ctx, which, debug.Page{Namespace: "shop", Selector: "app=p", Search: "p2"})
	require.NoError(e, err)
	require.Len(e, some.Heads, 5)
	require.Equal(e, map[string]string{"app": "p"}, some.Heads[0].Labels)

	o, err := client.Object(ctx, which, object.Key{Namespace: "bank", Name: "zero"})
	require.NoError(e, err)
	require.Contains(e, string(o.Contents), `"nodeName":"n0"`)
	require.NotContains(e, string(o.Contents), "applied-before")
	cached, _ := pods.Cache().Get(object.Key{Namespace: "bank", Name: "zero"})
	require.NotEmpty(e, cached.Annotations, "the cache's own object is as it was")

	indexes, err := client.Indexes(ctx, which, 1)
	require.NoError(e, err)
	require.Equal(e, "n0", indexes.Indexes[0].Largest[0].Value)
	require.Equal(e, 21, indexes.Indexes[0].Largest[0].Objects)
	require.Equal(e, 3, indexes.Indexes[0].Values)

	work, err := client.Queue(ctx, "keeper", 10)
	require.NoError(e, err)
	require.True(e, work.Controller)
	require.Len(e, work.Running, 1)
	require.Equal(e, "shop/slow", work.Running[0].Key)
	require.GreaterOrEqual(e, work.Running[0].For, time.Second)
	mine, err := client.Queue(ctx, "mine", 10)
	require.NoError(e, err)
	require.Equal(e, "a/b", mine.Waiting[0].Key)

	line, err := client.Timeline(ctx, "pods", object.Key{Namespace: "shop", Name: "late"})
	require.NoError(e, err)
	var kinds []flight.Kind
	for _, entry := range line.Entries {
		kinds = append(kinds, entry.Kind)
		require.NotZero(e, entry.At)
	}
	require.Contains(e, kinds, flight.Applied)
	require.Contains(e, kinds, flight.Asked)
	busiest, err := client.Busiest(ctx, 3600, 5)
	require.NoError(e, err)
	require.Len(e, busiest.Keys, 5)
	running, err := client.Goroutines(ctx)
	require.NoError(e, err)
	require.Contains(e, fmt.Sprint(running.Owners), "github.com/millrace-dev/millrace/controller.(*session).runWorker 4}")
}

// Secrets are never shown, and other objects only if it is allowed.
func TestSecretContentsAreWithheld(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		const word = "open sesame"
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "s", Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: word}},
			Data:       map[string][]byte{"word": []byte(word)},
		}
		controllertest.Put(e, secret)
		controllertest.Put(e, pod("shop", "p", word))
		renamed := factory.InformerWith(e.Factory, factory.For[*corev1.Secret]{})
		sharedinformer.AddIndex(renamed, "word", func(s *corev1.Secret) []string { return []string{string(s.Data["word"])} })
		metadata := factory.InformerWith(e.Factory, factory.For[*metav1.PartialObjectMetadata]{Kind: corev1.SchemeGroupVersion.WithKind("Secret")})
		sharedinformer.AddIndex(metadata, "applied", func(s *metav1.PartialObjectMetadata) []string {
			return []string{s.Annotations[corev1.LastAppliedConfigAnnotation]}
		})
		pods := factory.Informer[*corev1.Pod](e.Factory)
		sharedinformer.AddIndex(pods, "node", func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
		e.Factory.Start(e.Context())
		require.NoError(e, e.Factory.WaitForSync(e.Context()))
		for _, contents := range []bool{false, true} {
			process := debug.New(debug.Options{Informers: debug.Of(e.Factory), Contents: contents})
			var said strings.Builder
			for _, path := range []string{
				"status", "objects?informer=pods", "objects?informer=secrets&type=*v1.Secret", "objects?informer=secrets&type=*v1.PartialObjectMetadata",
				"object?informer=secrets&type=*v1.Secret&namespace=shop&name=s", "object?informer=secrets&type=*v1.PartialObjectMetadata&namespace=shop&name=s",
				"indexes?informer=secrets&type=*v1.Secret", "indexes?informer=secrets&type=*v1.PartialObjectMetadata",
				"timeline?namespace=shop&name=s", "busiest",
			} {
				w := httptest.NewRecorder()
				process.ServeHTTP(w, httptest.NewRequest(http.MethodGet, debug.Path+"v1/"+path, nil))
				require.Equal(e, http.StatusOK, w.Code, "%s: %s", path, w.Body)
				said.WriteString(w.Body.String())
			}
			require.NotContains(e, said.String(), word)
			require.NotContains(e, said.String(), base64.StdEncoding.EncodeToString([]byte(word)))
			o, err := attached(process).Object(e.Context(), debug.Which{Informer: "pods"}, object.Key{Namespace: "shop", Name: "p"})
			require.NoError(e, err)
			require.Equal(e, contents, o.Contents != nil)
			require.Equal(e, contents, o.Withheld == "")
			i, err := attached(process).Indexes(e.Context(), debug.Which{Informer: "pods"}, 3)
			require.NoError(e, err)
			require.Equal(e, contents, i.Indexes[0].Largest[0].Value == word)
		}
	})
}

// Errors say what to do.
func TestQuestionsThatCannotBeAnswered(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		factory.Informer[*corev1.Pod](e.Factory)
		factory.Informer[*corev1.Secret](e.Factory)
		factory.InformerWith(e.Factory, factory.For[*metav1.PartialObjectMetadata]{Kind: corev1.SchemeGroupVersion.WithKind("Pod")})
		factory.InformerWith(e.Factory, factory.For[*corev1.ConfigMap]{Scope: factory.Scope{Namespaces: []string{"shop"}}})
		process := debug.New(debug.Options{Informers: debug.Of(e.Factory, (*factory.Factory)(nil), broken{})})
		for path, want := range map[string]string{
			"v1/objects":                               "409 Several informers match: ",
			"v1/objects?informer=pods":                 "409 Several informers match: pods (*v1.Pod); pods (*v1.PartialObjectMetadata). ",
			"v1/objects?informer=configmaps":           `200 {"informer":"configmaps in namespace shop"`,
			"v1/objects?informer=nodes":                "404 No such informer. Available: configmaps in namespace shop (*v1.ConfigMap); pods (*v1.Pod)",
			"v1/objects?informer=secrets&limit=0":      "400 limit=0: want a number from 1 to 1000",
			"v1/objects?informer=secrets&selector=a b": "400 selector=a b: ",
			"v1/object?informer=secrets":               "400 Specify the object: name",
			"v1/object?informer=secrets&name=x":        `404 x is not in the cache of secrets (*v1.Secret), which is complete up to version "".`,
			"v1/timeline":                              "400 Specify the object",
			"v1/queue?name=x":                          "404 This process exposes no controllers",
			"v1/busiest?seconds=-1":                    "400 seconds=-1",
			"v1/nothing":                               "404 There is no /debug/millrace/v1/nothing. See the page at /debug/millrace/; programs can query /debug/millrace/v1/status.",
		} {
			w := httptest.NewRecorder()
			process.ServeHTTP(w, httptest.NewRequest(http.MethodGet, strings.ReplaceAll(debug.Path+path, " ", "%20"), nil))
			require.Contains(e, fmt.Sprint(w.Code, " ", w.Body), want, path)
		}
		w := httptest.NewRecorder()
		process.ServeHTTP(w, httptest.NewRequest(http.MethodPost, debug.Path+"v1/status", nil))
		require.Equal(e, http.StatusMethodNotAllowed, w.Code)

		s, err := attached(process).Status(e.Context())
		require.NoError(e, err)
		require.Contains(e, s.Informers[len(s.Informers)-1].Failure.Err.Error(), "somebody else's")

		empty, err := attached(debug.New(debug.Options{})).Status(e.Context())
		require.NoError(e, err)
		require.Empty(e, empty.Informers)
		require.NotEmpty(e, empty.Process.Program)
	})
}

// broken are informers that panic.
type broken struct{}

func (broken) Status() []sharedinformer.Status { panic("somebody else's") }

// A stream sends events, ends with its server, and the number of streams is bounded.
func TestEventsAreStreamed(t *testing.T) {
	recorder := flight.New(flight.DefaultSize)
	pods := recorder.Track(flight.Label{Role: flight.Informer, Name: "pods"})
	server := httptest.NewServer(debug.New(debug.Options{Recorder: recorder}))
	defer server.Close()
	client := debug.Attach(server.URL, nil)
	record := func(name string) {
		pods.Record(&flight.Event{Kind: flight.Applied, Change: "add", Key: object.Key{Namespace: "shop", Name: name}, Decoded: time.Millisecond})
	}
	stop := make(chan struct{})
	var recording sync.WaitGroup
	recording.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				record(fmt.Sprint("p", n%2))
			}
		}
	})
	seen := 0
	for event, err := range client.Events(t.Context(), "pods", object.Key{Namespace: "shop", Name: "p1"}) {
		require.NoError(t, err)
		require.Equal(t, "p1", event.Key.Name)
		require.Equal(t, flight.Applied, event.Kind)
		require.Equal(t, time.Millisecond, event.Decoded)
		if seen++; seen == 5 {
			break
		}
	}
	close(stop)
	recording.Wait()

	var streams []*http.Response
	for {
		resp, err := http.Get(server.URL + debug.Path + "v1/events")
		require.NoError(t, err)
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
			break
		}
		streams = append(streams, resp)
	}
	require.LessOrEqual(t, len(streams), 8)
	require.GreaterOrEqual(t, len(streams), 7, "the one that was left may not have ended yet")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	require.NoError(t, server.Config.Shutdown(ctx), "nobody waits for streams")
	for _, resp := range streams {
		_, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
	}
}

// Any number of clients that do not read neither block the pipeline nor use unbounded
// memory.
func TestHostileViewers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		process := debug.New(debug.Options{Informers: func() []debug.Cluster { <-hold; return nil }})
		var requests sync.WaitGroup
		codes := make(chan int, 10_000)
		for range 10_000 {
			requests.Go(func() {
				w := httptest.NewRecorder()
				process.ServeHTTP(w, httptest.NewRequest(http.MethodGet, debug.Path+"v1/status", nil))
				codes <- w.Code
			})
		}
		synctest.Wait()
		require.Len(t, codes, 10_000-68, "four are answered, and 64 wait")
		close(hold)
		requests.Wait()
		close(codes)
		answered := 0
		for code := range codes {
			if code == http.StatusOK {
				answered++
			} else {
				require.Equal(t, http.StatusServiceUnavailable, code)
			}
		}
		require.Equal(t, 68, answered)
	})
}

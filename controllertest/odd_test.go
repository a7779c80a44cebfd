package controllertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllermanager"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/recording"
	"github.com/millrace-dev/millrace/rest/scheme"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/webhook"
)

// oddVariable names the odd test that this process is to be; see TestOddTests.
const oddVariable = "MILLRACE_CONTROLLERTEST_ODD"

// reconciling is a controller of namespaces.
func reconciling(e *Env, reconcile func(context.Context, *corev1.Namespace) (controller.Result, error)) *controller.Controller {
	namespaces := controller.ClientFor[*corev1.Namespace](e.Factory)
	c, err := controller.New("greeter", controller.Objects(namespaces, reconcile), controller.Options{})
	if err != nil {
		e.Fatal(err)
	}
	c.Watch(controller.For(namespaces.Informer()))
	return c
}

// panicking has a controller whose reconciles panic.
func panicking(e *Env) *controllermanager.Manager {
	all, err := controllermanager.NewRegistry(controllermanager.Descriptor{Name: "greeter", New: func(*controllermanager.Context) (manager.Runnable, error) {
		return reconciling(e, func(context.Context, *corev1.Namespace) (controller.Result, error) { panic("no greeting") }), nil
	}})
	require.NoError(e, err)
	cm, err := controllermanager.New(all, e.Factory, controllermanager.Options{StartInterval: -1})
	require.NoError(e, err)
	return cm
}

// odd are tests that fail, with their output.
var odd = map[string]struct {
	test func(t *testing.T)
	says []string
}{
	"a reconcile that panics": {func(t *testing.T) {
		Run(t, func(e *Env) {
			Put(e, namespace("shop"))
			e.Start(reconciling(e, func(context.Context, *corev1.Namespace) (controller.Result, error) { panic("no greeting") }))
		})
	}, []string{"--- FAIL", "controller greeter: panicked reconciles: 1, the last: shop: reconciler panicked: no greeting", "odd_test.go:"}},
	"a reconcile that panics in a controllermanager": {func(t *testing.T) {
		Run(t, func(e *Env) {
			Put(e, namespace("shop"))
			e.Start(panicking(e))
			e.Settle(time.Minute)
		})
	}, []string{"--- FAIL", "controller greeter: panicked reconciles:", "no greeting"}},
	"a reconcile that panics in a manager's controllermanager": {func(t *testing.T) {
		Run(t, func(e *Env) {
			Put(e, namespace("shop"))
			m := e.Manager(manager.Options{})
			require.NoError(e, m.Add(panicking(e)))
			e.Start(m)
			e.Settle(time.Minute)
		})
	}, []string{"--- FAIL", "controller greeter: panicked reconciles:", "no greeting"}},
	"a reconcile that panics in a controller without the manager's options": {func(t *testing.T) {
		Run(t, func(e *Env) {
			Put(e, namespace("shop"))
			m := e.Manager(manager.Options{})
			require.NoError(e, m.Add(reconciling(e, func(context.Context, *corev1.Namespace) (controller.Result, error) { panic("no greeting") })))
			e.Start(m)
			e.Settle(time.Minute)
		})
	}, []string{"--- FAIL", "controller greeter: panicked reconciles:", "no greeting"}},
	"a handler that panics": {func(t *testing.T) {
		Run(t, func(e *Env) {
			Put(e, namespace("shop"))
			factory.Informer[*corev1.Namespace](e.Factory).AddHandler(sharedinformer.HandlerFunc[*corev1.Namespace](func(context.Context, sharedinformer.Event[*corev1.Namespace]) error {
				panic("no greeting")
			}))
			e.Start()
		})
	}, []string{"--- FAIL", "no greeting", "odd_test.go:"}},
	"a map function that panics": {func(t *testing.T) {
		Run(t, func(e *Env) {
			Put(e, namespace("shop"))
			c := reconciling(e, nothing)
			c.Watch(controller.Map(factory.Informer[*corev1.Node](e.Factory), func(context.Context, *corev1.Node) ([]controller.Request, error) { panic("no greeting") }))
			e.Start(c)
			Put(e, &corev1.Node{ObjectMeta: namespace("n").ObjectMeta})
		})
	}, []string{"--- FAIL", "controller greeter: nodes: ", "no greeting", "odd_test.go:"}},
	"a reconcile that ends its goroutine": {func(t *testing.T) {
		Run(t, func(e *Env) {
			Put(e, namespace("shop"))
			e.Start(reconciling(e, func(context.Context, *corev1.Namespace) (controller.Result, error) {
				e.Error("what require does")
				runtime.Goexit()
				return controller.Result{}, nil
			}))
		})
	}, []string{"--- FAIL", "what require does", "the last: shop: reconciler called runtime.Goexit"}},
	"a reconcile that never returns": {func(t *testing.T) {
		Run(t, func(e *Env) {
			Put(e, namespace("shop"))
			e.Start(reconciling(e, func(context.Context, *corev1.Namespace) (controller.Result, error) {
				<-make(chan struct{})
				return controller.Result{}, nil
			}))
		})
	}, []string{"--- FAIL", "still running 24h0m0s after the context was canceled: *controller.Controller; controller greeter, whose reconciles have not returned: 1 (shop): each must return", "odd_test.go:"}},
	"a managed reconcile that ignores its context": {func(t *testing.T) {
		Run(t, func(e *Env) {
			Put(e, namespace("shop"))
			m := e.Manager(manager.Options{})
			err := manager.ControllerFor[*corev1.Namespace](m).Named("greeter").Complete(func(context.Context, *corev1.Namespace) (controller.Result, error) {
				for {
					time.Sleep(time.Hour)
				}
			})
			require.NoError(e, err)
			e.Start(m)
		})
	}, []string{"--- FAIL", "greeter"}},
	"a reconcile that leads to the next": {func(t *testing.T) {
		Run(t, func(e *Env) {
			namespaces := controller.ClientFor[*corev1.Namespace](e.Factory)
			n := 0
			e.Start(reconciling(e, func(ctx context.Context, ns *corev1.Namespace) (controller.Result, error) {
				n++
				ns.Labels = map[string]string{"n": fmt.Sprint(n)}
				_, err := namespaces.Update(ctx, ns)
				return controller.Result{}, err
			}))
			Put(e, namespace("shop"))
			e.Error("Put has returned")
		})
	}, []string{"--- FAIL", "the test never settles: PUT /api/v1/namespaces/shop was sent by 1000 reconciles, each right after the previous one"}},
	"a reconcile that leads to the next and takes no time": {func(t *testing.T) {
		RunWith(t, Options{Tick: -1}, func(e *Env) {
			namespaces := controller.ClientFor[*corev1.Namespace](e.Factory)
			n := 0
			e.Start(reconciling(e, func(ctx context.Context, ns *corev1.Namespace) (controller.Result, error) {
				n++
				ns.Labels = map[string]string{"n": fmt.Sprint(n)}
				_, err := namespaces.Update(ctx, ns)
				return controller.Result{}, err
			}))
			Put(e, namespace("shop"))
			e.Error("Put has returned")
		})
	}, []string{"--- FAIL", "the test never settles: PUT /api/v1/namespaces/shop was sent 10000 times at the same bubble time"}},
	"a status that tells the time": {func(t *testing.T) {
		Run(t, func(e *Env) {
			namespaces := controller.ClientFor[*corev1.Namespace](e.Factory)
			e.Start(reconciling(e, func(ctx context.Context, ns *corev1.Namespace) (controller.Result, error) {
				_, err := controller.PatchStatus(ctx, namespaces, ns, func(ns *corev1.Namespace) error {
					ns.Status.Conditions = []corev1.NamespaceCondition{{Type: "Seen", Status: "True", LastTransitionTime: metav1.Now()}}
					return nil
				})
				return controller.Result{}, err
			}))
			Put(e, namespace("shop"))
			e.Error("Put has returned")
		})
	}, []string{"--- FAIL", "the test never settles: PATCH /api/v1/namespaces/shop/status was sent by 1000 reconciles", "A status that contains the time does"}},
	"an object that is nil": {func(t *testing.T) {
		Run(t, func(e *Env) { Put[*corev1.Namespace](e, nil) })
	}, []string{"--- FAIL", "put: the *v1.Namespace is nil"}},
	"an object that is not there": {func(t *testing.T) {
		Run(t, func(e *Env) {
			for n := range 12 {
				Put(e, &corev1.ConfigMap{ObjectMeta: namespace(fmt.Sprint("m", n+10)).ObjectMeta})
			}
			Get[*corev1.ConfigMap](e, object.Key{Namespace: "shop", Name: "greeting"})
		})
	}, []string{"--- FAIL", `get configmaps shop/greeting: configmaps "greeting" not found; the server has m10, m11, m12, m13, m14, m15, m16, m17, m18, m19 and 2 more`}},
	"a deletion of what is not there": {func(t *testing.T) {
		Run(t, func(e *Env) { Delete[*corev1.ConfigMap](e, object.Key{Namespace: "shop", Name: "greeting"}) })
	}, []string{"--- FAIL", `delete configmaps shop/greeting: configmaps "greeting" not found; the server has no objects of this kind`}},
	"a controller that is nil": {func(t *testing.T) {
		Run(t, func(e *Env) {
			var c *controller.Controller
			e.Start(reconciling(e, nothing), c)
		})
	}, []string{"--- FAIL", "Start: argument 2 is nil"}},
	"a manager with an address": {func(t *testing.T) {
		Run(t, func(e *Env) { e.Manager(manager.Options{HealthProbeBindAddress: ":8081"}) })
	}, []string{"--- FAIL", `Manager: HealthProbeBindAddress is ":8081": leave it empty`}},
	"a manager with informers of its own": {func(t *testing.T) {
		Run(t, func(e *Env) { e.Manager(manager.Options{Namespaces: []string{"shop"}}) })
	}, []string{"--- FAIL", "Manager: Factory or Namespaces is set, but the informers are those of the environment: set controllertest.Options.Factory instead"}},
	"a manager with kinds of its own": {func(t *testing.T) {
		kinds := scheme.New()
		kinds.AddKnownTypeWithName(object.GVK{Group: "example.com", Version: "v1", Kind: "Widget"}, &corev1.ConfigMap{})
		Run(t, func(e *Env) {
			e.Manager(manager.Options{Scheme: scheme.New()})
			e.Manager(manager.Options{Scheme: kinds})
		})
	}, []string{"--- FAIL", `Manager: Scheme has kinds of the group "example.com" that the environment lacks: set controllertest.Options.Scheme`}},
	"a use after the end": {func(t *testing.T) {
		Run(t, func(e *Env) { e.Cleanup(func() { e.Settle(time.Hour) }) })
	}, []string{"--- FAIL", "controllertest: Settle after the test body has returned"}},
	"a use after the bubble's end": {func(t *testing.T) {
		var kept *Env
		Run(t, func(e *Env) { kept = e })
		Put(kept, namespace("shop"))
	}, []string{"controllertest: Put after the test body has returned"}},
	"a recording that is none": {func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "none.recording")
		require.NoError(t, os.WriteFile(file, []byte("a picture"), 0o600))
		Replay(t, file, func(*Env) {})
	}, []string{"--- FAIL", "none.recording: at byte 0: the file is damaged: not a recording"}},
	"an empty recording": {func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "empty.recording")
		require.NoError(t, os.WriteFile(file, nil, 0o600))
		Replay(t, file, func(*Env) {})
	}, []string{"--- FAIL", "empty.recording: at byte 0: the file is truncated: it is empty"}},
	"a recording of another version": {func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "later.recording")
		require.NoError(t, os.WriteFile(file, []byte("millrace recording 9\n"), 0o600))
		Replay(t, file, func(*Env) {})
	}, []string{"--- FAIL", "later.recording: at byte 0: the file was written by another version"}},
	"a huge file that is no recording": {func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "huge.recording")
		require.NoError(t, os.WriteFile(file, []byte("millrace recording 1\n"), 0o600))
		require.NoError(t, os.Truncate(file, 1<<40)) // most of it is a hole
		Replay(t, file, func(*Env) {})
	}, []string{"--- FAIL", "huge.recording: at byte 21: the file is damaged: invalid block size: 0 bytes"}},
	"a recording of nothing": {func(t *testing.T) {
		Replay(t, record(t, func(func(path string)) { time.Sleep(time.Minute) }), func(e *Env) {
			e.Start(reconciling(e, nothing))
			e.PlayToEnd()
		})
	}, []string{"--- FAIL", "odd.recording: nothing to replay: no lists or watches were recorded"}},
	"a recording of others": {func(t *testing.T) {
		Replay(t, record(t, func(get func(path string)) { get("/api/v1/pods") }), func(e *Env) {
			e.Start(reconciling(e, nothing))
			e.PlayToEnd()
		})
	}, []string{"--- FAIL", "odd.recording: no client has requested its contents: pods; last request: list namespaces"}},
	"a recording of a century": {func(t *testing.T) {
		Replay(t, record(t, func(get func(path string)) {
			get("/api/v1/namespaces")
			time.Sleep(100 * 365 * 24 * time.Hour)
			get("/api/v1/namespaces")
		}), func(e *Env) {
			e.Start(reconciling(e, nothing))
			e.PlayToEnd()
		})
	}, []string{"--- FAIL", "odd.recording: it lasts 36500 days, but a test plays at most 31"}},
	"a long recording that does not suit": {func(t *testing.T) {
		Replay(t, record(t, func(get func(path string)) {
			get("/api/v1/namespaces")
			time.Sleep(2 * day)
			get("/api/v1/namespaces?continue=next") // a list would suit, since it takes the place of watches
		}), func(e *Env) {
			e.Start(reconciling(e, nothing))
			e.PlayToEnd()
		})
	}, []string{"--- FAIL", "odd.recording: no client has sent the next request: list namespaces"}},
	"a recording that is damaged": {func(t *testing.T) {
		file := record(t, func(get func(path string)) {
			for range 20 {
				get("/api/v1/namespaces")
				time.Sleep(time.Hour)
			}
		})
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		text[len(text)/2] ^= 1
		require.NoError(t, os.WriteFile(file, text, 0o600))
		Replay(t, file, func(e *Env) { e.Error("it is played") })
	}, []string{"--- FAIL", "odd.recording: at byte ", "the file is damaged: block checksum mismatch: the recording is played up to that point", "it is played"}},
	"a recording without a player": {func(t *testing.T) {
		Run(t, func(e *Env) { e.PlayToEnd() })
	}, []string{"--- FAIL", "PlayToEnd without a recording: use Replay instead of Run"}},
}

// record makes a recording of requests that are answered with an empty list.
func record(t *testing.T, body func(get func(path string))) (file string) {
	file = filepath.Join(t.TempDir(), "odd.recording")
	synctest.Test(t, func(t *testing.T) {
		recorder, err := recording.Create(file, recording.Options{})
		require.NoError(t, err)
		client := &http.Client{Transport: recorder.RoundTripper(emptyList{}, nil)}
		body(func(path string) {
			resp, err := client.Get("http://recorded" + path)
			require.NoError(t, err)
			_, err = io.Copy(io.Discard, resp.Body)
			require.NoError(t, errors.Join(err, resp.Body.Close()))
		})
		require.NoError(t, recorder.Close())
	})
	return file
}

// emptyList answers every request with a list of namespaces that has none.
type emptyList struct{}

// RoundTrip implements http.RoundTripper.
func (emptyList) RoundTrip(r *http.Request) (*http.Response, error) {
	const list = `{"kind":"NamespaceList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(list)), Request: r,
	}, nil
}

func nothing(context.Context, *corev1.Namespace) (controller.Result, error) {
	return controller.Result{}, nil
}

// TestOdd runs one of the odd tests in its own process.
func TestOdd(t *testing.T) {
	name := os.Getenv(oddVariable)
	if name == "" {
		t.Skip("it fails; see TestOddTests")
	}
	odd[name].test(t)
}

// Mistakes in a test or its controller make it fail soon, with a message that explains them.
func TestOddTests(t *testing.T) {
	for name, c := range odd {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestOdd$")
			cmd.Env = append(os.Environ(), oddVariable+"="+name)
			out, err := cmd.CombinedOutput()
			require.NoError(t, ctx.Err(), "it does not end; it has said:\n%s", out)
			require.Error(t, err, "it passes:\n%s", out)
			for _, want := range c.says {
				require.Contains(t, string(out), want)
			}
		})
	}
}

// A test may allow panics, which are then logged.
func TestPanicsCanBeAllowed(t *testing.T) {
	RunWith(t, Options{AllowPanics: true}, func(e *Env) {
		h := &heard{TB: e.TB}
		e.TB = h
		Put(e, namespace("shop"))
		e.Start(reconciling(e, func(context.Context, *corev1.Namespace) (controller.Result, error) { panic("no greeting") }))
		require.Contains(t, h.log.String(), "failed reconciles: 1, the last: shop: reconciler panicked: no greeting")
	})
}

// Several goroutines may use one Env, the controller's own among them.
func TestAnEnvIsForSeveralGoroutines(t *testing.T) {
	Run(t, func(e *Env) {
		e.Start(reconciling(e, func(_ context.Context, ns *corev1.Namespace) (controller.Result, error) {
			Put(e, &corev1.ConfigMap{ObjectMeta: namespace(ns.Name).ObjectMeta})
			return controller.Result{}, nil
		}))
		var puts sync.WaitGroup
		for n := range 10 {
			puts.Go(func() {
				Put(e, namespace(fmt.Sprint("shop", n)))
				e.Settle(time.Second)
			})
		}
		puts.Wait()
		e.Settle(0)
		require.Len(e, All[*corev1.ConfigMap](e), 10)
	})
}

// A reconcile that always fails, or always conflicts, is quiet between its attempts.
func TestPermanentFailureIsQuietBetweenAttempts(t *testing.T) {
	Run(t, func(e *Env) {
		c := reconciling(e, func(context.Context, *corev1.Namespace) (controller.Result, error) {
			return controller.Result{}, errors.New("no luck")
		})
		Put(e, namespace("shop"))
		e.Start(c)
		e.Settle(24 * time.Hour)
		require.Greater(e, c.Status().Errors, uint64(10))
	})
}

// Two worlds of one test have nothing to do with each other.
func TestTwoEnvsAreIndependent(t *testing.T) {
	for range 2 {
		Run(t, func(e *Env) {
			require.Empty(e, All[*corev1.ConfigMap](e))
			Put(e, &corev1.ConfigMap{ObjectMeta: namespace("a").ObjectMeta})
			e.Start()
			require.NoError(e, factory.Informer[*corev1.ConfigMap](e.Factory).WaitForSync(e.Context()))
		})
	}
}

// Objects returned by All may be changed and put.
func TestResultsOfAllMayBeChanged(t *testing.T) {
	Run(t, func(e *Env) {
		var seen []string
		e.Start(reconciling(e, func(_ context.Context, ns *corev1.Namespace) (controller.Result, error) {
			seen = append(seen, ns.Labels["greet"])
			return controller.Result{}, nil
		}))
		Put(e, namespace("shop"))
		for _, ns := range All[*corev1.Namespace](e) {
			ns.Labels = map[string]string{"greet": "world"}
			require.Empty(e, Get[*corev1.Namespace](e, object.Key{Name: ns.Name}).Labels["greet"])
			Put(e, ns)
		}
		require.Contains(e, seen, "world")
	})
}

// A program that adds webhooks to its manager is tested as it is.
func TestAManagerWithWebhooks(t *testing.T) {
	Run(t, func(e *Env) {
		m := e.Manager(manager.Options{Webhooks: webhook.Options{Address: ":9443", CertDir: "/certs"}})
		nothing := func(context.Context, *webhook.Request[*corev1.Pod]) error { return nil }
		require.NoError(t, manager.WebhookFor[*corev1.Pod](m).Validate(nothing).Complete())
		e.Start(m)
		e.Settle(time.Hour)
		server, err := m.WebhookServer()
		require.NoError(t, err)
		require.NoError(t, server.Check())
	})
}

package canary

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/events"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/leaderelection"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/webhook"
)

// program is a manager with every feature, and its environment.
type program struct {
	*testing.T
	said    *ledger
	srv     *apiservertest.Server
	manager *manager.Manager
	hooks   *webhook.Server

	metrics, health, debug string // addresses of the pages
}

// faults are the faults of lists and watches of Secrets and ConfigMaps.
var faults = map[string][]apiservertest.Action{
	"401":               {apiservertest.Fail{Code: 401}},
	"403":               {apiservertest.Fail{Code: 403}},
	"429":               {apiservertest.Fail{Code: 429, RetryAfter: "0"}},
	"500":               {apiservertest.Fail{Code: 500, Message: "Internal"}},
	"503":               {apiservertest.Fail{Code: 503}},
	"cut at once":       {apiservertest.Cut{}},
	"cut in the middle": {apiservertest.Cut{AfterBytes: 300}},
	"garbled":           {apiservertest.Garble{Frame: 0}},
	"garbled later":     {apiservertest.Garble{Frame: 1}},
	"truncated":         {apiservertest.Truncate{Frame: 0}},
	"oversize":          {apiservertest.Oversize{Frame: 0, Size: 17 << 20}},
	"wrong type":        {apiservertest.WrongType{Frame: 0}},
	"twice":             {apiservertest.Duplicate{Every: 1}},
	"ERROR event":       {apiservertest.ErrorEvent{Status: metav1.Status{Status: "Failure", Code: 500, Message: "oh"}}},
}

// A program with every feature enabled meets every fault and reveals no secret.
func TestAWholeProgram(t *testing.T) {
	p := newProgram(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.manager.Run(ctx) }()
	defer cancel()

	p.until("the manager serves", func() bool { return p.hooks.Check() == nil && p.srv.Stats().Open("watch", "secrets") > 0 })
	p.review(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"},"data":{"a":"` + base64.StdEncoding.EncodeToString([]byte(canaries["secret"])) + `"}}`)
	p.review(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a","creationTimestamp":"` + canaries["config"] + `"}}`)
	p.review(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"},"data":{"a":"` + canaries["config"] + `!"}}`)
	for name, do := range faults {
		p.suffer("secrets", name, do)
		p.suffer("configmaps", name, do)
	}
	p.until("an event is written", func() bool {
		return len(p.srv.Objects(object.GVR{Group: "events.k8s.io", Version: "v1", Resource: "events"})) > 0
	})
	for _, e := range p.srv.Objects(object.GVR{Group: "events.k8s.io", Version: "v1", Resource: "events"}) {
		p.said.value("event", e)
	}
	cancel()
	p.said.err("error", <-ended)
	p.said.requireSilence(t, "log", "log in JSON", "failure", "error", "metrics", "debug", "health", "goroutines", "event", "review")
}

// suffer applies a fault to a resource, and reads all pages meanwhile.
func (p *program) suffer(resource, name string, do []apiservertest.Action) {
	p.Helper()
	fault := resource + " " + name
	p.srv.Faults().Add(apiservertest.Fault{Name: fault, Resource: resource, Do: do})
	p.srv.Restart()
	p.srv.Compact()
	p.until(fault+" hits", func() bool { return p.srv.Stats().Faults()[fault] > 0 })
	p.read()
	p.srv.Faults().Clear()
	p.until(resource+" are watched again after "+name, func() bool { return p.srv.Stats().Open("watch", resource) > 0 })
}

// read reads all pages.
func (p *program) read() {
	p.Helper()
	p.get("metrics", p.metrics+"/metrics")
	for _, path := range []string{"/healthz?verbose", "/readyz?verbose", "/nothing"} {
		p.get("health", p.health+path)
		p.get("debug", p.debug+path)
	}
	for _, path := range []string{"/debug/status", "/debug/status?format=json", "/debug/pprof/goroutine?debug=2", "/debug/pprof/heap?debug=1", "/debug/pprof/cmdline"} {
		p.get("debug", p.debug+path)
	}
	stacks := make([]byte, 4<<20)
	p.said.say("goroutines", string(stacks[:runtime.Stack(stacks, true)]))
	p.said.value("debug", p.manager.Report())
	var last strings.Builder
	require.NoError(p, flight.Process().Dump(&last))
	require.Contains(p, last.String(), "informer")
	p.said.say("flight recorder", last.String())
}

func (p *program) get(where, address string) {
	p.Helper()
	req, err := http.NewRequestWithContext(p.Context(), http.MethodGet, address, nil)
	require.NoError(p, err)
	req.Header.Set("Accept", "text/html")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(p, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(p, err)
	p.said.say(where, string(body))
}

// review sends an object to the webhook.
func (p *program) review(obj string) {
	p.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	resp, err := client.Post("https://"+p.hooks.Addr().String()+"/secrets", "application/json",
		strings.NewReader(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","kind":{"version":"v1","kind":"Secret"},"object":`+obj+`}}`))
	require.NoError(p, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(p, err)
	p.said.say("review", string(body))
}

func (p *program) until(what string, done func() bool) {
	p.Helper()
	for end := time.Now().Add(30 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			p.Fatalf("waited for 30 s until %s", what)
		}
	}
}

// newProgram returns a program that reads its configuration from a kubeconfig.
func newProgram(t *testing.T) *program {
	t.Helper()
	p := &program{T: t, said: newLedger()}
	p.srv = apiservertest.New(apiservertest.Options{Tokens: map[string]string{canaries["token"]: "me"}})
	t.Cleanup(p.srv.Close)
	endpoint, err := p.srv.Listen(apiservertest.ListenOptions{TLS: true})
	require.NoError(t, err)
	for n := range 3 {
		meta := metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("a-", n)}
		_, err := p.srv.Create(&corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"a": []byte(canaries["secret"])}})
		require.NoError(t, err)
		_, err = p.srv.Create(&corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"a": canaries["config"]}})
		require.NoError(t, err)
	}
	client := newIdentity(t, p.said)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, `
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u, namespace: shop}}]
clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}]
users: [{name: u, user: {token: %q, client-certificate-data: %s, client-key: %s}}]
`, endpoint.URL, base64.StdEncoding.EncodeToString(endpoint.CA), canaries["token"], base64.StdEncoding.EncodeToString(client.cert), client.keyFile), 0o600))
	cfg, err := config.LoadWith(config.LoadOptions{Kubeconfig: path, Logger: p.said.logger()})
	require.NoError(t, err)
	cfg.Logger = p.said.logger()
	p.assemble(cfg)
	return p
}

// assemble creates the manager and adds its runnables.
func (p *program) assemble(cfg *config.Config) {
	p.Helper()
	addresses := free(p.T, 3)
	p.metrics, p.health, p.debug = "http://"+addresses[0], "http://"+addresses[1], "http://"+addresses[2]
	m, err := manager.New(cfg, manager.Options{
		Logger: p.said.logger(), MetricsBindAddress: addresses[0], HealthProbeBindAddress: addresses[1], PprofBindAddress: addresses[2],
		LeaderElection: &leaderelection.Options{Name: "canary"},
		Factory: factory.Options{Timing: reflector.Timing{Backoff: reflector.Backoff{Initial: 10 * time.Millisecond, Max: 20 * time.Millisecond}}, DetectMutations: 50 * time.Millisecond, OnError: func(_ context.Context, f *failure.Failure) failure.Verdict {
			p.said.err("failure", f)
			p.said.value("failure", *f)
			return failure.Retry
		}},
	})
	require.NoError(p, err)
	p.manager = m

	events := events.New(m.Client(), "example.com/canary", events.Options{Flush: time.Millisecond, Logger: p.said.logger()})
	require.NoError(p, m.Add(events))
	secrets := factory.Informer[*corev1.Secret](m.Factory())
	factory.Informer[*corev1.ConfigMap](m.Factory()).AddHandler(sharedinformer.HandlerFunc[*corev1.ConfigMap](
		func(context.Context, sharedinformer.Event[*corev1.ConfigMap]) error { panic("boom") }))
	secrets.AddHandler(sharedinformer.HandlerFunc[*corev1.Secret](func(_ context.Context, e sharedinformer.Event[*corev1.Secret]) error {
		p.said.value("debug", e.Type)
		return errors.New("the handler failed")
	}))
	cached := controller.ClientFor[*corev1.Secret](m.Factory())
	c, err := controller.New("secrets", controller.Objects(cached, func(ctx context.Context, s *corev1.Secret) (controller.Result, error) {
		events.Recordf(s, "Warning", "Seen", "Look", "%s was seen", s.Name)
		// The update contradicts itself: the version is that of another object.
		_, err := rest.ResourceFor[*corev1.Secret](m.Client()).Update(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, ResourceVersion: "1"}, Data: s.Data}, metav1.UpdateOptions{})
		p.said.err("error", err)
		if s.Name == "a-1" {
			panic(fmt.Sprint("no ", s.Name))
		}
		return controller.Result{}, err
	}), m.ControllerOptions())
	require.NoError(p, err)
	c.Watch(controller.For(secrets))
	require.NoError(p, m.Add(c))

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(p, err)
	p.hooks, err = webhook.New(webhook.Options{Listener: listener, CertDir: filepath.Dir(newIdentity(p.T, p.said).keyFile), Logger: p.said.logger()})
	require.NoError(p, err)
	p.hooks.Handle("/secrets", webhook.Mutate(func(_ context.Context, r *webhook.Request[*corev1.Secret]) error {
		r.Object.Labels = map[string]string{"seen": "yes"}
		return nil
	}))
	require.NoError(p, m.Add(p.hooks))
}

// free returns unused addresses of the loopback interface.
func free(t *testing.T, n int) (addresses []string) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer l.Close()
		addresses = append(addresses, l.Addr().String())
	}
	return addresses
}

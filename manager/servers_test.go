package manager_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	inside "github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/leaderelection"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/serving"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/webhook"
)

// freePort returns an unused address on the loopback interface.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	resp, err := client.Get(url)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(body)
}

func TestTheServersOfAManager(t *testing.T) {
	srv := apiservertest.New(apiservertest.Options{})
	defer srv.Close()
	endpoint, err := srv.Listen(apiservertest.ListenOptions{})
	require.NoError(t, err)
	metrics, health, debug := freePort(t), freePort(t), freePort(t)
	_, debugPort, err := net.SplitHostPort(debug)
	require.NoError(t, err)
	m, err := manager.New(&config.Config{Host: endpoint.URL, Namespace: "shop"}, manager.Options{
		Scheme:             sharedScheme(),
		LeaderElection:     &leaderelection.Options{Name: "janitor"},
		MetricsBindAddress: metrics, MetricsTLS: &serving.TLS{},
		HealthProbeBindAddress: health,
		PprofBindAddress:       ":" + debugPort,
	})
	require.NoError(t, err)
	factory.Informer[*corev1.Pod](m.Factory())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	<-m.Elected()
	require.NoError(t, m.WaitForSync(ctx))

	code, body := get(t, "https://"+metrics+"/metrics")
	require.Equal(t, 200, code)
	for _, want := range []string{
		`leader_election_master_status{name="janitor"} 1`, `millrace_informer_synced{cluster="",resource="pods"} 1`,
		"go_goroutines", "process_start_time_seconds", "promhttp_metric_handler_errors_total",
	} {
		require.Contains(t, body, want)
	}
	code, body = get(t, "http://"+health+"/readyz?verbose")
	require.Equal(t, 200, code)
	require.Equal(t, "[+] informers: ok\n[+] manager: ok\n[+] runnables: ok\n[+] warm-up: ok\n", body)
	code, body = get(t, "http://"+health+"/healthz?verbose")
	require.Equal(t, 200, code)
	require.Equal(t, "[+] leader-election: ok\n[+] ping: ok\n", body)
	code, _ = get(t, "http://"+debug+"/debug/pprof/")
	require.Equal(t, 200, code)
	code, body = get(t, "http://"+debug+"/debug/status")
	require.Equal(t, 200, code)
	var report map[string]any
	require.NoError(t, json.Unmarshal([]byte(body), &report))
	require.Equal(t, "running", report["State"])
	require.Contains(t, body, `"Resource": "pods"`)
	require.Contains(t, body, `"QueueAge": "0s"`)
	require.NotContains(t, body, "0001-01-01", "a time that is zero says nothing")
	require.NotContains(t, body, "Selection", "there is no share")
	require.NoError(t, m.AddInformers("<b>", m.Cluster))
	asked, err := http.NewRequest(http.MethodGet, "http://"+debug+"/debug/status", nil)
	require.NoError(t, err)
	asked.Header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	page, err := http.DefaultClient.Do(asked)
	require.NoError(t, err)
	defer page.Body.Close()
	shown, err := io.ReadAll(page.Body)
	require.NoError(t, err)
	require.Equal(t, "text/html; charset=utf-8", page.Header.Get("Content-Type"))
	require.Contains(t, string(shown), "<tr><th>Resource</th><td>pods</td></tr>")
	require.Contains(t, string(shown), "<th>&lt;b&gt;</th>")
	_, body = get(t, "http://"+debug+"/debug/status?format=json")
	require.Contains(t, body, `"Resource": "pods"`)
	seen, err := inside.Attach("http://"+debug, nil).Status(ctx)
	require.NoError(t, err)
	require.Equal(t, []string{"", "<b>"}, []string{seen.Informers[0].Cluster, seen.Informers[1].Cluster})
	require.Equal(t, m.Cluster.Status()[0].RV, seen.Informers[0].RV)
	require.True(t, seen.Election.Leading)
	heads, err := inside.Attach("http://"+debug, nil).Objects(ctx, inside.Which{Cluster: "<b>"}, inside.Page{})
	require.NoError(t, err)
	require.Equal(t, "pods", heads.Informer)
	require.NoError(t, m.AddHealthzCheck("disk", func(*http.Request) error { return errors.New("the key of bob is full") }))
	_, body = get(t, "http://"+health+"/healthz")
	require.Contains(t, body, "[-] disk: failed\n")
	require.NotContains(t, body, "bob", "anybody may ask")
	_, body = get(t, "http://"+debug+"/healthz")
	require.Contains(t, body, "[-] disk: the key of bob is full\n")
	asked.Host = "evil.example"
	refused, err := http.DefaultClient.Do(asked)
	require.NoError(t, err)
	defer refused.Body.Close()
	require.Equal(t, 403, refused.StatusCode, "a web page may have given the loopback interface a name")
	asked, err = http.NewRequest(http.MethodGet, "https://"+metrics+"/metrics", nil)
	require.NoError(t, err)
	asked.Host = "evil.example"
	trusting := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	refused, err = trusting.Do(asked)
	require.NoError(t, err)
	defer refused.Body.Close()
	require.Equal(t, 403, refused.StatusCode, "metrics too")
	if outside := otherAddress(); outside != "" {
		_, err = net.DialTimeout("tcp", net.JoinHostPort(outside, debugPort), time.Second)
		require.Error(t, err, "debug pages are for the loopback interface")
	}

	cancel()
	require.NoError(t, <-ended)
	_, err = net.Dial("tcp", health)
	require.Error(t, err, "the port is closed")

	late, err := serving.New(serving.Options{Name: "late", Address: health, Handler: m.Probes()})
	require.NoError(t, err)
	require.ErrorIs(t, m.Add(late), manager.ErrStopped)
	_, err = net.Dial("tcp", health)
	require.Error(t, err, "the port of what was refused is closed")
}

// otherAddress returns an address of this machine that is not on the loopback interface.
func otherAddress() string {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return ""
	}
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && n.IP.To4() != nil {
			return n.IP.String()
		}
	}
	return ""
}

func TestPortInUseIsReportedBeforeAnythingRuns(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	free := freePort(t)
	m, err := manager.New(&config.Config{Host: "http://127.0.0.1:1"}, manager.Options{
		Scheme: sharedScheme(), MetricsBindAddress: free, HealthProbeBindAddress: taken.Addr().String(),
	})
	require.NoError(t, err)
	require.NoError(t, m.Add(manager.RunnableFunc(func(context.Context) error { t.Error("it ran"); return nil })))
	err = m.Run(t.Context())
	require.ErrorContains(t, err, "health server: listen tcp "+taken.Addr().String())
	require.ErrorContains(t, err, "choose another address")
	l, err := net.Listen("tcp", free)
	require.NoError(t, err, "what was opened is closed again")
	l.Close()

	// Runnables added now would never run.
	for _, group := range []manager.Group{manager.Servers, manager.Caches, manager.Others, manager.LeaderElected} {
		require.ErrorIs(t, m.AddTo(group, manager.RunnableFunc(func(context.Context) error { return nil })), manager.ErrStopped)
	}
	late, err := serving.New(serving.Options{Name: "late", Address: free, Handler: http.NotFoundHandler()})
	require.NoError(t, err)
	require.ErrorIs(t, m.Add(late), manager.ErrStopped)
	require.Nil(t, late.Addr(), "the port of what was refused is not open")
}

// The test runs itself as another process, because the second signal ends the process.
func TestTheFirstSignalStopsGracefullyAndTheSecondAtOnce(t *testing.T) {
	if os.Getenv("SIGNAL_CHILD") != "" {
		ctx := manager.SignalContext()
		os.Stdout.WriteString("started\n")
		<-ctx.Done()
		os.Stdout.WriteString("stopping: " + context.Cause(ctx).Error() + "\n")
		select {}
	}
	child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), "SIGNAL_CHILD=1")
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	defer child.Process.Kill()
	expect := func(want string) {
		t.Helper()
		line := make([]byte, len(want))
		_, err := io.ReadFull(out, line)
		require.NoError(t, err)
		require.Equal(t, want, string(line))
	}
	expect("started\n")
	require.NoError(t, child.Process.Signal(syscall.SIGTERM))
	expect("stopping: context canceled by signal \"terminated\"\n")
	require.NoError(t, child.Process.Signal(os.Interrupt))
	_, _ = io.Copy(io.Discard, out)
	require.Error(t, child.Wait())
	require.Equal(t, 1, child.ProcessState.ExitCode())
}

// idle is a listener without connections.
type idle struct{ closed chan struct{} }

func (l idle) Accept() (net.Conn, error) {
	<-l.closed
	return nil, net.ErrClosed
}
func (l idle) Close() error   { close(l.closed); return nil }
func (l idle) Addr() net.Addr { return &net.UnixAddr{Name: "idle"} }

// /readyz fails while the API server should not send us webhook requests.
func TestReadyWhenWebhooksAreServed(t *testing.T) {
	inBubble(t, server{}, func(r *rig) {
		m := r.manager(options{})
		opts := m.WebhookOptions()
		opts.Listener, opts.TLS = idle{make(chan struct{})}, &serving.TLS{}
		hooks, err := webhook.New(opts)
		require.NoError(r, err)
		hooks.Handle("/validate", http.NotFoundHandler())
		require.NoError(r, m.Add(hooks))
		_, body := probe(m, "/readyz/webhooks")
		require.Equal(r, "[-] webhooks: webhook server: not serving\n", body)
		run := r.start(m)
		synctest.Wait()
		require.True(r, ready(m))
		families, err := m.Metrics().Gather()
		require.NoError(r, err)
		names := map[string]bool{}
		for _, f := range families {
			names[f.GetName()] = true
		}
		require.True(r, names["controller_runtime_webhook_requests_total"])
		settle(11 * 365 * 24 * time.Hour)
		code, body := probe(m, "/readyz")
		require.Equal(r, 500, code)
		require.Contains(r, body, "[-] webhooks: webhook server: the certificate has expired at 20")
		require.NoError(r, run.end())
	})
}

// Two webhook servers have two addresses, two names and two checks.
func TestTwoServersOfWebhooks(t *testing.T) {
	inBubble(t, server{}, func(r *rig) {
		m := r.manager(options{})
		for n, name := range []string{"", "", "tenant"} {
			opts := m.WebhookOptions()
			opts.Name, opts.Listener, opts.TLS = name, idle{make(chan struct{})}, &serving.TLS{}
			hooks, err := webhook.New(opts)
			require.NoError(r, err)
			hooks.Handle("/validate", http.NotFoundHandler())
			require.NoError(r, m.Add(hooks))
			if n == 0 {
				require.EqualError(r, m.Add(hooks), "add webhook server: it has already been added")
			}
		}
		require.Equal(r, []string{"webhook server", "webhook server 2", "tenant server"}, m.Report().Groups[manager.Webhooks].Waiting)
		for check, name := range map[string]string{"webhooks": "webhook", "webhooks-2": "webhook", "webhooks-3": "tenant"} {
			_, body := probe(m, "/readyz/"+check)
			require.Equal(r, "[-] "+check+": "+name+" server: not serving\n", body)
		}
		run := r.start(m)
		synctest.Wait()
		require.True(r, ready(m))
		require.NoError(r, run.end())
	})
}

// informers is a foreign source of informers.
type informers []sharedinformer.Status

func (i informers) Status() []sharedinformer.Status { return i }

func TestInformersOfOthersAreShownToo(t *testing.T) {
	inBubble(t, server{}, func(r *rig) {
		m := r.manager(options{})
		forbidden := &failure.Failure{Resource: "secrets", Phase: failure.PhaseList, Err: errors.New("forbidden"), Attempts: 3, Last: time.Now()}
		theirs := informers{
			{Reflector: reflector.Status{Resource: "pods", State: reflector.Watching}, Synced: true},
			{Reflector: reflector.Status{Resource: "secrets", State: reflector.BackingOff, Attempts: 3, Failure: forbidden}},
		}
		require.NoError(r, m.AddInformers("client-go", theirs))
		require.ErrorContains(r, m.AddInformers("client-go", theirs), `two runnables are named "cluster client-go"`)
		require.ErrorContains(r, m.AddInformers("", theirs), "may be unnamed")
		r.start(m)
		synctest.Wait()

		require.Equal(r, map[string][]sharedinformer.Status{"": nil, "client-go": theirs}, m.Report().Clusters)
		code, body := probe(m, "/readyz")
		require.Equal(r, http.StatusInternalServerError, code)
		require.Contains(r, body, "[-] informers-client-go: not synced: secrets: list: forbidden (3 attempts, last 0s ago)\n")
		theirs[1].Synced = true
		require.True(r, ready(m))
		w := httptest.NewRecorder()
		m.Metrics().Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		require.Contains(r, w.Body.String(), `millrace_informer_synced{cluster="client-go",resource="secrets"} 1`)
	})
}

package monitoring

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/leaderelection"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/serving"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/shard/membership"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/webhook"
)

// cases are the names of Pods, named after the result of their reconcile.
var cases = []string{"success", "requeue", "later", "error", "terminal", "panic", "timeout"}

// answered are the values of the label result in both stacks.
var answered = []string{"success", "requeue", "requeue_after", "error"}

// patience is the time limit for a condition that holds within a second on an idle machine.
const patience = 3 * time.Minute

// cluster is a simulated server with a Pod for each case.
func cluster() (*apiservertest.Server, *apiservertest.Endpoint, error) {
	srv := apiservertest.New(apiservertest.Options{})
	for _, name := range cases {
		if _, err := srv.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}); err != nil {
			return nil, nil, err
		}
	}
	endpoint, err := srv.Pipe()
	return srv, endpoint, err
}

// once gives each Pod its result once, and success afterwards.
type once struct{ sync.Map }

func (o *once) first(name string) string {
	if _, before := o.LoadOrStore(name, true); before {
		return "success"
	}
	return name
}

// review is a request of an API server to a webhook.
const review = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","operation":"CREATE",
"kind":{"group":"","version":"v1","kind":"Pod"},"resource":{"group":"","version":"v1","resource":"pods"},"namespace":"shop",
"name":"web-0","object":{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":"web-0"}}}}`

// ours scrapes a Millrace program with every metric enabled.
var ours = sync.OnceValues(func() (scrape, error) {
	srv, endpoint, err := cluster()
	if err != nil {
		return nil, err
	}
	defer srv.Close()
	cfg := &config.Config{Host: endpoint.URL, Dial: endpoint.DialContext, Namespace: "shop"}
	m, err := manager.New(cfg, manager.Options{
		LeaderElection: &leaderelection.Options{Name: "janitor"},
		Sharding:       &membership.Options{Name: "carts", Slots: 8},
	})
	if err != nil {
		return nil, err
	}
	var seen once
	err = manager.ControllerFor[*corev1.Pod](m).Named("janitor").With(controller.Options{Timeout: 100 * time.Millisecond}).
		Complete(func(ctx context.Context, p *corev1.Pod) (controller.Result, error) {
			switch seen.first(p.Name) {
			case "requeue":
				return controller.Result{Requeue: true}, nil
			case "later":
				return controller.Result{RequeueAfter: time.Hour}, nil
			case "error":
				return controller.Result{}, errors.New("no")
			case "terminal":
				return controller.Result{}, controller.Terminal(errors.New("never"))
			case "panic":
				panic("oh")
			case "timeout":
				<-ctx.Done()
				return controller.Result{}, ctx.Err()
			}
			return controller.Result{}, nil
		})
	if err != nil {
		return nil, err
	}
	factory.InformerWith(m.Factory(), factory.For[*corev1.ConfigMap]{Scope: factory.Scope{Shard: m.Shard(shard.ByUID())}}).
		AddHandler(sharedinformer.HandlerFuncs[*corev1.ConfigMap]{})
	// Servers cannot select by owner, so the status shows at once which side selects.
	half := shard.Scope{Key: shard.ByOwner(), Share: shard.Ordinal(0, 2)}
	factory.InformerWith(m.Factory(), factory.For[*corev1.Secret]{Scope: factory.Scope{Shard: half}})
	opts := m.WebhookOptions()
	opts.TLS = &serving.TLS{}
	if opts.Listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	hooks, err := webhook.New(opts)
	if err != nil {
		return nil, err
	}
	hooks.Handle("/validate", webhook.Validate(func(context.Context, *webhook.Request[*corev1.Pod]) error { return nil }))
	if err := m.Add(hooks); err != nil {
		return nil, err
	}

	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	if err := admit(hooks); err != nil {
		cancel()
		return nil, errors.Join(err, <-ended)
	}
	s, err := settled(m.Metrics().Handler(), "janitor", func(s scrape) error {
		for _, name := range []string{"leader_election_master_status", "millrace_shard_slots_owned", "millrace_informer_handler_synced", "millrace_informer_selection"} {
			if !s.has(name, nil) {
				return fmt.Errorf("no %s above 0", name)
			}
		}
		return nil
	})
	cancel()
	return s, errors.Join(err, <-ended)
})

// admit calls the webhook once, as soon as it serves.
func admit(hooks *webhook.Server) error {
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(hooks.SelfSigned())
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}}
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport, Timeout: patience}
	resp, err := client.Post("https://"+hooks.Addr().String()+"/validate", "application/json", strings.NewReader(review))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// settled scrapes a program until every case has been counted and enough returns nil.
func settled(h http.Handler, name string, enough func(scrape) error) (s scrape, err error) {
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		s, err = ask(h)
		if err == nil {
			err = counted(s, name)
		}
		if err == nil {
			err = enough(s)
		}
		if err == nil || time.Now().After(end) {
			return s, err
		}
	}
}

// counted returns an error while a case has not been counted.
func counted(s scrape, name string) error {
	for _, result := range answered {
		if !s.has("controller_runtime_reconcile_total", map[string]string{"controller": name, "result": result}) {
			return fmt.Errorf("no reconcile of %s has come to %s", name, result)
		}
	}
	for _, kind := range []string{"reconcile_errors", "terminal_reconcile_errors", "reconcile_panics", "reconcile_timeouts"} {
		if metric := "controller_runtime_" + kind + "_total"; !s.has(metric, map[string]string{"controller": name}) {
			return fmt.Errorf("no %s of %s", metric, name)
		}
	}
	return nil
}

// both scrapes a program of each stack.
func both(t *testing.T) (millrace, controllerRuntime scrape) {
	t.Helper()
	millrace, err := ours()
	require.NoError(t, err)
	controllerRuntime, err = theirs()
	require.NoError(t, err)
	return millrace, controllerRuntime
}

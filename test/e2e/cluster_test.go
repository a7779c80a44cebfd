package e2e

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace-dev/millrace/envtest"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/scheme"
)

// launchTimeout includes the first build of the server.
const launchTimeout = 15 * time.Minute

// shared is the server of the tests that neither kill nor configure their server.
var shared *envtest.Server

func TestMain(m *testing.M) {
	if ns := os.Getenv(contenderNamespace); ns != "" {
		contend(ns)
		return
	}
	if name := os.Getenv(sharerName); name != "" {
		share(name)
		return
	}
	flag.Parse()
	if testing.Short() {
		fmt.Println("skipped: needs the real API server")
		return
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), launchTimeout)
	defer cancel()
	var err error
	if shared, err = envtest.Launch(ctx, envtest.Options{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := shared.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return cmp.Or(code, 1)
	}
	return code
}

// connect returns a client of the server for one of its kubeconfig's contexts.
func connect(t *testing.T, srv *envtest.Server, context string) *rest.Client {
	t.Helper()
	return newClient(t, loadConfig(t, srv, context))
}

func loadConfig(t *testing.T, srv *envtest.Server, context string) *config.Config {
	t.Helper()
	cfg, err := config.LoadWith(config.LoadOptions{Kubeconfig: srv.Kubeconfig, Context: context})
	require.NoError(t, err)
	return cfg
}

func newClient(t *testing.T, cfg *config.Config) *rest.Client {
	t.Helper()
	client, err := rest.NewClient(cfg, newScheme(t))
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	return client
}

// newScheme returns a scheme with the built-in kinds and the Go types of the custom ones.
func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := scheme.New()
	s.AddKnownTypes(gadgetVersion, &Gadget{}, &GadgetList{})
	return s
}

// admin begins a test on the shared server: it returns a client with all rights and a new
// namespace.
func admin(t *testing.T) (*rest.Client, string) {
	t.Helper()
	t.Parallel()
	client := connect(t, shared, "admin")
	return client, newNamespace(t, client)
}

func newNamespace(t *testing.T, client *rest.Client) string {
	t.Helper()
	ns, err := rest.ResourceFor[*corev1.Namespace](client).Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	return ns.Name
}

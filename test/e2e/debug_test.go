package e2e

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/leaderelection"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/test/debugger"
)

// TestInformerDebug runs the commands that end by themselves against the real API server: with
// their own informers, and attached to a program.
func TestInformerDebug(t *testing.T) {
	client, ns := admin(t)
	built := debugger.New(t, "../..")
	t.Run("on a cluster", func(t *testing.T) { debugCluster(t, built.In(t), client, ns) })
	t.Run("of a process", func(t *testing.T) { debugProcess(t, built.In(t), client, newNamespace(t, client)) })
	t.Run("of a manager", func(t *testing.T) { debugManager(t, built.In(t), client, newNamespace(t, client)) })
}

func debugCluster(t *testing.T, d *debugger.Debugger, client *rest.Client, ns string) {
	maps := rest.ResourceFor[*corev1.ConfigMap](client).Namespace(ns)
	made, err := maps.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "settings", Labels: map[string]string{"app": "web"}}, Data: map[string]string{"colour": "blue"},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	d.Flags = []string{"--kubeconfig=" + shared.Kubeconfig, "-n", ns}

	require.Equal(t, "configmaps/settings\n", d.Run(0, "get", "cm", "-l", "app=web", "-o", "name"))
	require.Equal(t, "blue "+made.ResourceVersion, d.Run(0, "get", "cm/settings", "-o", "jsonpath={.data.colour} {.metadata.resourceVersion}"))
	require.Contains(t, d.Run(0, "get", "cm", "-o", "yaml", "-l", "app=web"), "colour: blue")
	require.Regexp(t, `(?m)^settings +1 +`, d.Run(0, "get", "cm", "-l", "app=web", "--no-headers", "--server-print"))
	require.Contains(t, d.Run(0, "watch", "cm", "-l", "app=web", "-c", "1", "-o", "jsonl"), `"colour":"blue"`)
	require.Regexp(t, `^configmaps in namespace \S+: \d+ objects equal at version \d+\n$`, d.Run(0, "check", "cm"))
	require.Contains(t, d.Run(0, "why", "cm/settings"), "settings")
	require.NotEmpty(t, d.Run(0, "wait", "cm/settings", "--for=jsonpath={.data.colour}=blue", "--timeout=30s"))
	d.Run(124, "wait", "cm/settings", "--for=delete", "--timeout=1s")
	require.Contains(t, d.Run(0, "doctor", "cm,pods", "--for=1s"), "these credentials may list")
	require.Contains(t, d.Run(4, "doctor", "cm", "--context=nobody", "--for=1s"), "these credentials may not list")
	require.Contains(t, d.Run(0, "cost", "cm"), "configmaps")

	file := filepath.Join(t.TempDir(), "bug.recording")
	d.Run(0, "record", "cm", "-o", file, "--duration=1s")
	d.Flags = nil
	require.Equal(t, "blue", d.Run(0, "get", "cm/settings", "-n", ns, "-o", "jsonpath={.data.colour}", "--replay", file))
	require.Contains(t, d.Run(0, "replay", file, "--speed=max", "-o", "name"), "add "+ns+" configmaps/settings\n")
}

// debugProcess inspects a program with a factory and a controller.
func debugProcess(t *testing.T, d *debugger.Debugger, client *rest.Client, ns string) {
	recorder := flight.New(flight.DefaultSize)
	f := factory.New(client, factory.Options{Namespaces: []string{ns}, Flight: recorder})
	c, err := controller.New("keeper", controller.Func(func(_ context.Context, r controller.Request) (controller.Result, error) {
		if r.Name == "bad" {
			return controller.Result{}, errors.New("no quota")
		}
		return controller.Result{}, nil
	}), controller.Options{Flight: recorder})
	require.NoError(t, err)
	c.Watch(controller.For(factory.Informer[*corev1.ConfigMap](f)))
	ctx, cancel := context.WithCancel(t.Context())
	f.Start(ctx)
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	defer func() {
		cancel()
		require.NoError(t, <-ended)
		f.Wait()
	}()
	maps := rest.ResourceFor[*corev1.ConfigMap](client).Namespace(ns)
	for _, name := range []string{"good", "bad"} {
		_, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	require.NoError(t, f.WaitForSync(t.Context()))
	shown := httptest.NewServer(debug.New(debug.Options{
		Informers: debug.Of(f), Recorder: recorder, Controllers: func() []controller.View { return []controller.View{c} },
	}))
	defer shown.Close()
	d.Flags = []string{"--attach=" + shown.URL}

	d.Run(0, "wait", "configmaps/bad", "configmaps/good", "-n", ns, "--for=create", "--timeout=30s")
	poll(t, "it has failed often", func() error {
		if said := d.Run(0, "why", "configmaps/bad", "-n", ns); !strings.Contains(said, "times in a row") {
			return errors.New(said)
		}
		return nil
	})
	require.Regexp(t, `^The controller keeper failed on \S+/bad \d+ times in a row, .*: no quota\.\n`, d.Run(0, "why", "configmaps/bad", "-n", ns))
	require.Contains(t, d.Run(0, "get", "configmaps", "-o", "name"), "configmaps/bad\n")
	require.Contains(t, d.Run(0, "doctor", "--for=1s"), "warning  keeper: failed on "+ns+"/bad ")
	d.Flags = append(d.Flags, "--kubeconfig="+shared.Kubeconfig, "-n", ns)
	require.Regexp(t, `: \d+ objects equal at version \d+\n$`, d.Run(0, "check"))
	require.Contains(t, d.Run(0, "why", "configmaps/good"), "good")

	require.NoError(t, maps.Delete(t.Context(), object.Key{Name: "bad"}, metav1.DeleteOptions{}))
	d.Run(0, "wait", "configmaps/bad", "--for=delete", "--timeout=30s")
}

// debugManager inspects a leading manager at its own address: first all is well, then a reconcile
// hangs, and then the cache misses a change.
func debugManager(t *testing.T, d *debugger.Debugger, client *rest.Client, ns string) {
	cfg, address := loadConfig(t, shared, "admin"), freeAddress(t)
	var deaf debugger.Deaf
	cfg.WrapTransport = func(next http.RoundTripper) http.RoundTripper {
		deaf.Next = next
		return &deaf
	}
	m, err := manager.New(cfg, manager.Options{
		Scheme: newScheme(t), Factory: factory.Options{Scope: factory.Scope{Namespaces: []string{ns}}},
		LeaderElection:   &leaderelection.Options{Namespace: ns, Name: "janitor"},
		PprofBindAddress: address, DebugContents: true,
	})
	require.NoError(t, err)
	held := make(chan struct{})
	let := sync.OnceFunc(func() { close(held) })
	defer let()
	require.NoError(t, manager.ControllerFor[*corev1.ConfigMap](m).Named("keeper").Complete(func(ctx context.Context, o *corev1.ConfigMap) (controller.Result, error) {
		if o.Name == "stuck" {
			select {
			case <-held:
			case <-ctx.Done():
			}
		}
		return controller.Result{}, nil
	}))
	r := runManager(t, m)
	maps := rest.ResourceFor[*corev1.ConfigMap](client).Namespace(ns)
	create := func(name string) *corev1.ConfigMap {
		t.Helper()
		made, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		require.NoError(t, err)
		return made
	}
	create("good")
	<-m.Elected()
	require.NoError(t, m.WaitForSync(t.Context()))
	d.Flags = []string{"--attach=http://" + address, "--kubeconfig=" + shared.Kubeconfig, "-n", ns}

	d.Run(0, "wait", "configmaps/good", "--for=create")
	d.Run(0, "wait", "keeper", "--for=queue=0")
	require.Regexp(t, `^The controller keeper reconciled `+ns+`/good \S+ ago in \S+ \(success\), and nothing has requested it since\.\n`, d.Until("reconciled", 0, "why", "configmaps/good"))
	require.Regexp(t, `(?m)^configmaps in namespace \S+ +Watching +true `, d.Run(0, "get"))
	require.Regexp(t, `^configmaps in namespace \S+: \d+ objects equal at version \d+\n$`, d.Run(0, "check"))
	require.Contains(t, d.Run(0, "doctor", "--for=100ms"), "this replica is the leader")
	d.Top("configmaps in namespace", "Watching")

	create("stuck")
	d.Until("The controller keeper has been reconciling "+ns+"/stuck for ", 0, "why", "configmaps/stuck")
	_, said := d.Said(124, "wait", "keeper", "--for=queue=0", "--timeout=3s")
	require.Contains(t, said, "0 queued, 1 in progress")
	let()
	d.Run(0, "wait", "keeper", "--for=queue=0")

	deaf.To("missed")
	missed := create("missed")
	stop, changing := make(chan struct{}), make(chan error, 1)
	go func() { changing <- changeUntil(t.Context(), stop, maps, object.Key{Name: "good"}) }()
	found := d.Run(4, "check")
	close(stop)
	require.NoError(t, <-changing)
	require.Regexp(t, `^configmaps in namespace \S+: 1 of \d+ objects differ at version \d+ \(1 missing\)\n`+
		`  missing  `+ns+`/missed  not in the cache; the server has version `+missed.ResourceVersion+`\n$`, found)
	require.Contains(t, d.Run(0, "why", "configmaps/missed"), ns+"/missed is in no cache")
	r.stop()
	require.NoError(t, <-r.ended)
}

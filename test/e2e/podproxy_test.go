package e2e

import (
	"context"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/envtest"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/test/debugger"
)

// TestInformerDebugThroughTheProxy attaches to a program in a pod, through the proxy of the real
// API server: with a token that is allowed to, and with one that is not.
func TestInformerDebugThroughTheProxy(t *testing.T) {
	client, ns := admin(t)
	listener := listenAsPod(t)
	f := factory.New(client, factory.Options{Namespaces: []string{ns}})
	factory.Informer[*corev1.ConfigMap](f)
	ctx, cancel := context.WithCancel(t.Context())
	f.Start(ctx)
	defer func() { cancel(); f.Wait() }()
	require.NoError(t, f.WaitForSync(t.Context()))
	shown := httptest.NewUnstartedServer(debug.New(debug.Options{Informers: debug.Of(f), Contents: true}))
	require.NoError(t, shown.Listener.Close())
	shown.Listener = listener
	shown.Start()
	defer shown.Close()
	host, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	podAt(t, client, ns, "janitor-0", host)
	podAt(t, client, ns, "inside", "127.0.0.1")
	podAt(t, client, ns, "pending", "")
	maps := rest.ResourceFor[*corev1.ConfigMap](client).Namespace(ns)
	_, err = maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"colour": "blue"}}, metav1.CreateOptions{})
	require.NoError(t, err)

	may := tokenOf(t, client, ns, "looker",
		envtest.Rule{Namespace: ns, Verbs: []string{"get"}, Resources: []string{"pods/proxy"}},
		envtest.Rule{Namespace: ns, Verbs: []string{"get", "list"}, Resources: []string{"configmaps"}})
	mayNot := tokenOf(t, client, ns, "stranger")
	built := debugger.New(t, "../..")
	as := func(token, pod string) *debugger.Debugger {
		return built.In(t, "--attach=pod/"+pod, "--kubeconfig="+shared.Kubeconfig, "--token="+token, "-n", ns)
	}
	d := as(may, "janitor-0:"+port)
	require.Contains(t, d.Run(0, "wait", "configmaps/settings", "--for=create"), "it is in the cache")
	require.Equal(t, "blue", d.Run(0, "get", "configmaps/settings", "-o", "jsonpath={.data.colour}"))
	require.Regexp(t, `(?m)^configmaps in namespace `+ns+` +Watching +true +\d+ `, d.Run(0, "get"))
	require.Regexp(t, `^configmaps in namespace `+ns+`: \d+ objects equal at version \d+\n$`, d.Run(0, "check"))
	description := d.Run(0, "why", "configmaps/settings")
	require.Contains(t, description, "The cache has configmaps/settings, same as the server")
	require.Contains(t, description, "nothing is reconciled")
	require.Contains(t, description, "Not allowed to read its Events: ", "looker may not")
	require.Contains(t, d.Run(0, "doctor", "--for=100ms"), "ok ")
	d.Top("configmaps in namespace", "Watching")
	stop := make(chan struct{})
	changing := make(chan error, 1)
	go func() { changing <- changeUntil(t.Context(), stop, maps, object.Key{Name: "settings"}) }()
	events := d.Run(0, "watch", "configmaps", "-c", "1", "--timeout=30s") // printed as they happen
	close(stop)
	require.NoError(t, <-changing)
	require.Contains(t, events, ns+"/settings")

	forward := func(pod string) string {
		return "kubectl port-forward pod/" + pod + " -n " + ns + " " + port + " and --attach http://localhost:" + port + "\n"
	}
	closed, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	require.NoError(t, err)
	_, nobody, err := net.SplitHostPort(closed.Addr().String())
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	for _, c := range []struct{ token, pod, said, hint string }{
		{mayNot, "janitor-0:" + port, `User "system:serviceaccount:` + ns + `:stranger" cannot get resource "pods/proxy"`, `request the verb "get" on pods/proxy, or use ` + forward("janitor-0")},
		{may, "janitor-0:" + nobody, "error trying to reach service: dial tcp " + host + ":" + nobody + ": connect: connection refused", "if the process listens only on its pod's loopback interface, use kubectl port-forward pod/janitor-0 -n " + ns + " " + nobody},
		{may, "inside:" + port, "address not allowed (HTTP 400)", "check whether it is running, or use " + forward("inside")},
		{may, "pending:" + port, "address not allowed (HTTP 400)", "the pod has no address that the API server can connect to: check whether it is running, or use " + forward("pending")},
		{may, "gone:" + port, `pods "gone" not found (HTTP 404)`, "is the pod in namespace " + ns + " of this cluster? Use --attach pod/[NAMESPACE/]NAME[:PORT] and --context to specify where it is"},
		{"wrong-token", "janitor-0:" + port, "Unauthorized (HTTP 401)", "the API server does not accept the credentials"},
	} {
		out, said := as(c.token, c.pod).Said(3, "get")
		require.Empty(t, out)
		require.Contains(t, said, "informer-debug: pod/"+c.pod+" in namespace "+ns+": ")
		require.Contains(t, said, c.said)
		require.Contains(t, said, c.hint)
		require.NotContains(t, said, c.token)
	}
}

// changeUntil changes an object repeatedly.
func changeUntil(ctx context.Context, stop <-chan struct{}, maps *rest.Resource[*corev1.ConfigMap], key object.Key) error {
	for n := 0; ; n++ {
		_, err := maps.Change(ctx, key, func(m *corev1.ConfigMap) error {
			m.Labels = map[string]string{"n": strconv.Itoa(n)}
			return nil
		}, rest.ChangeOptions{})
		if err != nil {
			return err
		}
		select {
		case <-stop:
			return nil
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// podAt creates a pod with the given address in its status, as a kubelet would. The pod does not
// run.
func podAt(t *testing.T, client *rest.Client, ns, name, address string) {
	t.Helper()
	pods := rest.ResourceFor[*corev1.Pod](client).Namespace(ns)
	pod, err := pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "none"}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	if address == "" {
		return
	}
	pod.Status.Phase, pod.Status.PodIP, pod.Status.PodIPs = corev1.PodRunning, address, []corev1.PodIP{{IP: address}}
	_, err = pods.Subresource("status").Update(t.Context(), pod, metav1.UpdateOptions{})
	require.NoError(t, err)
}

// tokenOf creates a service account with rights, and returns a token for it.
func tokenOf(t *testing.T, client *rest.Client, ns, name string, rules ...envtest.Rule) string {
	t.Helper()
	accounts := rest.ResourceFor[*corev1.ServiceAccount](client).Namespace(ns)
	_, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(t, err)
	request := &authenticationv1.TokenRequest{ObjectMeta: metav1.ObjectMeta{Name: name}}
	made, err := rest.SubresourceFor[*authenticationv1.TokenRequest](accounts, "token").Create(t.Context(), request, metav1.CreateOptions{})
	require.NoError(t, err)
	if len(rules) > 0 {
		_, err = shared.AddUser(t.Context(), envtest.User{Name: "system:serviceaccount:" + ns + ":" + name, Rules: rules})
		require.NoError(t, err)
	}
	return made.Status.Token
}

// listenAsPod listens at an address that the API server accepts for a pod. Loopback addresses are
// not accepted, so it uses one of TEST-NET-1 (RFC 5737), which it adds to the loopback interface
// for the duration of the test. The test is skipped if that is not permitted, except in CI, where
// root may do it.
func listenAsPod(t *testing.T) net.Listener {
	t.Helper()
	const address = "192.0.2.113"
	out, err := exec.CommandContext(t.Context(), "ip", "address", "add", address+"/32", "dev", "lo").CombinedOutput()
	if err != nil {
		why := "no address for a pod can be added to the loopback interface: " + err.Error() + ": " + string(out)
		if os.Getenv("CI") != "" && os.Geteuid() == 0 && !strings.Contains(string(out), "not permitted") {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	t.Cleanup(func() {
		out, err := exec.CommandContext(context.Background(), "ip", "address", "del", address+"/32", "dev", "lo").CombinedOutput()
		require.NoError(t, err, "%s", out)
	})
	l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() }) // if it was never served
	return l
}

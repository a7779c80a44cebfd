package debugtest

import (
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/config"
)

// Cluster starts a simulated API server with three pods on a loopback address. It returns the server and
// the flag that selects it.
func Cluster(t *testing.T, opts apiservertest.Options) (srv *apiservertest.Server, server string) {
	t.Helper()
	srv = apiservertest.New(opts)
	t.Cleanup(srv.Close)
	endpoint, err := srv.Listen(apiservertest.ListenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []object.Key{{Namespace: "shop", Name: "web-1"}, {Namespace: "shop", Name: "cart-1"}, {Namespace: "bank", Name: "api-1"}} {
		Put(t, srv, key, corev1.PodRunning)
	}
	return srv, "--server=" + endpoint.URL
}

// Put writes a pod in the given phase, with an app label.
func Put(t *testing.T, srv *apiservertest.Server, key object.Key, phase corev1.PodPhase) {
	t.Helper()
	app, _, _ := strings.Cut(key.Name, "-")
	_, err := srv.Put(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{RestartPolicy: corev1.RestartPolicyAlways, SchedulerName: corev1.DefaultSchedulerName},
		Status:     corev1.PodStatus{Phase: phase},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Bubbled returns a server with one pod and in-memory connections, for use in a synctest bubble.
func Bubbled(t *testing.T) (*apiservertest.Server, *config.Config) {
	t.Helper()
	srv := apiservertest.New(apiservertest.Options{})
	t.Cleanup(srv.Close)
	endpoint, err := srv.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	Put(t, srv, object.Key{Namespace: "shop", Name: "web-1"}, corev1.PodRunning)
	return srv, &config.Config{Host: endpoint.URL, Dial: endpoint.DialContext}
}

// Pods returns the GVR of pods.
func Pods() object.GVR { return corev1.SchemeGroupVersion.WithResource("pods") }

// LoginPage responds like a proxy that requires a login.
type LoginPage struct{}

// ServeHTTP implements http.Handler.
func (LoginPage) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html")
	_, _ = w.Write([]byte("<html><title>login</title></html>"))
}

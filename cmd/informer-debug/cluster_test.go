package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/test/apiserver"
)

// cluster is a simulated API server on loopback with three pods.
func cluster(t *testing.T, opts apiserver.Options) (srv *apiserver.Server, server string) {
	t.Helper()
	srv = apiserver.New(opts)
	t.Cleanup(srv.Close)
	endpoint, err := srv.Listen(apiserver.ListenOptions{})
	require.NoError(t, err)
	for _, key := range []object.Key{{Namespace: "shop", Name: "web-1"}, {Namespace: "shop", Name: "cart-1"}, {Namespace: "bank", Name: "api-1"}} {
		put(t, srv, key, corev1.PodRunning)
	}
	return srv, "--server=" + endpoint.URL
}

func put(t *testing.T, srv *apiserver.Server, key object.Key, phase corev1.PodPhase) {
	t.Helper()
	app, _, _ := strings.Cut(key.Name, "-")
	_, err := srv.Put(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{RestartPolicy: corev1.RestartPolicyAlways, SchedulerName: corev1.DefaultSchedulerName},
		Status:     corev1.PodStatus{Phase: phase},
	})
	require.NoError(t, err)
}

// bubbled is a server with one pod, for a bubble of package synctest: connections are in memory.
func bubbled(t *testing.T) (*apiserver.Server, *config.Config) {
	t.Helper()
	srv := apiserver.New(apiserver.Options{})
	t.Cleanup(srv.Close)
	endpoint, err := srv.Pipe()
	require.NoError(t, err)
	put(t, srv, object.Key{Namespace: "shop", Name: "web-1"}, corev1.PodRunning)
	return srv, &config.Config{Host: endpoint.URL, Dial: endpoint.DialContext}
}

// pods is the resource.
func pods() object.GVR { return corev1.SchemeGroupVersion.WithResource("pods") }

// htmlPage is what a proxy answers with.
type htmlPage struct{}

// ServeHTTP implements http.Handler.
func (htmlPage) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html")
	_, _ = w.Write([]byte("<html><title>login</title></html>"))
}

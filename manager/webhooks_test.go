package manager_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/serving"
	"github.com/millrace-dev/millrace/webhook"
)

var (
	podKind        = corev1.SchemeGroupVersion.WithKind("Pod")
	deploymentKind = appsv1.SchemeGroupVersion.WithKind("Deployment")
	gadgetKinds    = []object.GVK{{Group: "things.example.com", Version: "v1", Kind: "Gadget"}, {Group: "things.example.com", Version: "v2", Kind: "Gadget"}}
)

func webhookManager(t *testing.T, opts webhook.Options) *manager.Manager {
	t.Helper()
	m, err := manager.New(&config.Config{Host: "http://127.0.0.1:1"}, manager.Options{Scheme: sharedScheme(), Webhooks: opts})
	require.NoError(t, err)
	return m
}

// asker returns a function that sends a review to a running manager.
func asker(t *testing.T, m *manager.Manager) func(path string, kind object.GVK, operation admissionv1.Operation, obj, old any) *admissionv1.AdmissionResponse {
	t.Helper()
	server, err := m.WebhookServer()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- m.Run(ctx) }()
	t.Cleanup(func() { cancel(); require.NoError(t, <-ended) })
	require.Eventually(t, func() bool { return server.Check() == nil }, 10*time.Second, time.Millisecond)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(server.SelfSigned()))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	t.Cleanup(client.CloseIdleConnections)
	raw := func(o any) runtime.RawExtension {
		text, err := json.Marshal(o)
		require.NoError(t, err)
		return runtime.RawExtension{Raw: text}
	}
	return func(path string, kind object.GVK, operation admissionv1.Operation, obj, old any) *admissionv1.AdmissionResponse {
		body, err := json.Marshal(admissionv1.AdmissionReview{
			TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
			Request:  &admissionv1.AdmissionRequest{UID: "1", Operation: operation, Kind: metav1.GroupVersionKind(kind), Object: raw(obj), OldObject: raw(old)},
		})
		require.NoError(t, err)
		answer, err := client.Post("https://"+server.Addr().String()+path, "application/json", bytes.NewReader(body))
		require.NoError(t, err)
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.Equal(t, 200, answer.StatusCode, "%s: %s", path, text)
		var review admissionv1.AdmissionReview
		require.NoError(t, json.Unmarshal(text, &review))
		return review.Response
	}
}

func anObject(kind object.GVK, name string) any {
	if name == "" {
		return nil
	}
	return map[string]any{"apiVersion": kind.GroupVersion().String(), "kind": kind.Kind, "metadata": map[string]any{"name": name}}
}

func TestWebhooksOfABuilder(t *testing.T) {
	m := webhookManager(t, webhook.Options{Address: "127.0.0.1:0", TLS: &serving.TLS{}})
	seen := func(_ context.Context, r *webhook.Request[*corev1.Pod]) error {
		of := func(p *corev1.Pod) string {
			if p == nil {
				return "nil"
			}
			return p.Name
		}
		return errors.New(string(r.Operation) + " " + of(r.Object) + " " + of(r.OldObject))
	}
	label := func(_ context.Context, r *webhook.Request[*corev1.Pod]) error {
		r.Object.Labels = map[string]string{"a": "b"}
		return nil
	}
	require.NoError(t, manager.WebhookFor[*corev1.Pod](m).Validate(seen).Default(label).Complete())
	allow := func(context.Context, *webhook.Request[*appsv1.Deployment]) error { return nil }
	require.NoError(t, manager.WebhookFor[*appsv1.Deployment](m).Validate(allow).Complete())
	refuse := func(_ context.Context, r *webhook.Request[*unstructured.Unstructured]) error {
		return errors.New("no " + r.Object.GetAPIVersion())
	}
	require.NoError(t, manager.WebhookFor[*unstructured.Unstructured](m, gadgetKinds...).Validate(refuse).Complete())
	ask := asker(t, m)

	for _, c := range []struct {
		operation admissionv1.Operation
		obj, old  string
		want      string
	}{
		{admissionv1.Create, "a", "", "CREATE a nil"},
		{admissionv1.Update, "a", "b", "UPDATE a b"},
		{admissionv1.Delete, "", "b", "DELETE nil b"},
	} {
		got := ask("/validate--v1-pod", podKind, c.operation, anObject(podKind, c.obj), anObject(podKind, c.old))
		require.False(t, got.Allowed)
		require.Equal(t, c.want, got.Result.Message)
		got = ask("/mutate--v1-pod", podKind, c.operation, anObject(podKind, c.obj), anObject(podKind, c.old))
		require.True(t, got.Allowed)
		require.Equal(t, c.operation == admissionv1.Delete, got.Patch == nil)
	}
	require.True(t, ask("/validate-apps-v1-deployment", deploymentKind, admissionv1.Create, anObject(deploymentKind, "d"), nil).Allowed)
	got := ask("/validate-apps-v1-deployment", podKind, admissionv1.Create, anObject(podKind, "p"), nil)
	require.False(t, got.Allowed)
	require.Contains(t, got.Result.Message, "the webhook at /validate-apps-v1-deployment is for apps/v1 Deployment but received")
	for n, kind := range gadgetKinds {
		path := "/validate-things-example-com-" + kind.Version + "-gadget"
		require.Equal(t, "no things.example.com/"+kind.Version, ask(path, kind, admissionv1.Create, anObject(kind, "g"), nil).Result.Message)
		require.Contains(t, ask(path, gadgetKinds[1-n], admissionv1.Create, anObject(gadgetKinds[1-n], "g"), nil).Result.Message, "is for things.example.com/"+kind.Version)
	}
}

func TestWebhookBuilderRefusesInvalidWebhooks(t *testing.T) {
	served := webhook.Options{Address: "127.0.0.1:0", TLS: &serving.TLS{}}
	m, bare := webhookManager(t, served), webhookManager(t, webhook.Options{})
	pods := func(context.Context, *webhook.Request[*corev1.Pod]) error { return nil }
	any := func(context.Context, *webhook.Request[*unstructured.Unstructured]) error { return nil }
	require.NoError(t, manager.WebhookFor[*corev1.Pod](m).Validate(pods).Complete())
	for name, c := range map[string]struct {
		build func() error
		want  []string
	}{
		"no certificate": {func() error { return manager.WebhookFor[*corev1.Pod](bare).Validate(pods).Complete() },
			[]string{"webhook of Pod: the webhook server has no certificate: set manager.Options.Webhooks.CertDir"}},
		"no function": {func() error { return manager.WebhookFor[*corev1.Pod](m).Complete() },
			[]string{"webhook of Pod: it has no function: call Validate or Default"}},
		"nil": {func() error { return manager.WebhookFor[*corev1.Pod](m).Validate(nil).Default(nil).Complete() },
			[]string{"manager/webhooks_test.go:", ": Validate: the function is nil", ": Default: the function is nil"}},
		"all at once": {func() error { return manager.WebhookFor[*unregistered](bare).Validate(nil).Complete() },
			[]string{"webhook of *manager_test.unregistered: manager/webhooks_test.go:", "is not registered in the manager's scheme: register it", "the function is nil", "no certificate"}},
		"twice": {func() error { return manager.WebhookFor[*corev1.Pod](m).Default(pods).Validate(pods).Complete() },
			[]string{"/validate--v1-pod is already served by the webhook at manager/webhooks_test.go:"}},
		"twice in one": {func() error { return manager.WebhookFor[*corev1.Pod](m).Default(pods).Default(pods).Complete() },
			[]string{"/mutate--v1-pod is already served by the webhook at manager/webhooks_test.go:"}},
		"a handler of the server": {func() error {
			server, err := m.WebhookServer()
			require.NoError(t, err)
			server.Handle("/validate-apps-v1-deployment", http.NotFoundHandler())
			none := func(context.Context, *webhook.Request[*appsv1.Deployment]) error { return nil }
			err = manager.WebhookFor[*appsv1.Deployment](m).Validate(none).Default(none).Complete()
			require.False(t, server.Handles("/mutate-apps-v1-deployment"), "none is added")
			return err
		}, []string{"manager/webhooks_test.go:", ": /validate-apps-v1-deployment already has a handler, added with the webhook server's Handle"}},
		"any kind": {func() error { return manager.WebhookFor[*unstructured.Unstructured](m).Validate(any).Complete() },
			[]string{"*unstructured.Unstructured may be of any kind: pass the webhook's kinds"}},
		"a wildcard": {func() error {
			return manager.WebhookFor[*unstructured.Unstructured](m, object.GVK{Group: "*", Version: "v1", Kind: "Pod"}).Validate(any).Complete()
		}, []string{"a path needs one version and one kind"}},
		"another type's kind": {func() error {
			return manager.WebhookFor[*corev1.Pod](m, deploymentKind).Validate(pods).Complete()
		}, []string{"manager/webhooks_test.go:", "the Go type of apps/v1, Kind=Deployment is *v1.Deployment, not *v1.Pod: use that type, or pass another kind"}},
		"an interface": {func() error { return manager.WebhookFor[object.Object](m).Complete() },
			[]string{"object.Object is not a pointer to an API type"}},
		"zero": {func() error { return new(manager.WebhookBuilder[*corev1.Pod]).Validate(pods).Default(pods).Complete() },
			[]string{"start with manager.WebhookFor"}},
		"nobody": {func() error { var none *manager.WebhookBuilder[*corev1.Pod]; return none.Complete() },
			[]string{"start with manager.WebhookFor"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.build()
			require.Error(t, err)
			for _, want := range c.want {
				require.ErrorContains(t, err, want)
			}
			require.NotContains(t, err.Error(), "manager/webhooks.go")
		})
	}
	require.NoError(t, manager.WebhookFor[*corev1.Pod](m).Default(pods).Complete(), "a refused builder has served nothing")
	defer func() {
		require.Regexp(t, `^manager/webhooks_test.go:\d+: the manager is nil$`, fmt.Sprint(recover()))
	}()
	manager.WebhookFor[*corev1.Pod](nil)
}

package e2e

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/leaderelection"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/discovery"
	"github.com/millrace-dev/millrace/serving"
	"github.com/millrace-dev/millrace/webhook"
)

// running is a running manager and its stop function.
type running struct {
	*manager.Manager
	stop  context.CancelFunc
	ended chan error
}

func runManager(t *testing.T, m *manager.Manager) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{m, cancel, make(chan error, 1)}
	go func() { r.ended <- m.Run(ctx) }()
	t.Cleanup(cancel)
	return r
}

// gate is a network that can be cut.
type gate struct {
	http.RoundTripper
	cut atomic.Bool
}

func (g *gate) RoundTrip(req *http.Request) (*http.Response, error) {
	if g.cut.Load() {
		return nil, errors.New("the network is cut")
	}
	return g.RoundTripper.RoundTrip(req)
}

// TestTwoManagersCompeteForALease: one leads. If it is killed, the other one takes over after the
// lease has expired; if it is stopped, at once. The token grows each time.
func TestTwoManagersCompeteForALease(t *testing.T) {
	client, ns := admin(t)
	contender := func(name string) (*running, *gate) {
		network := &gate{}
		cfg := loadConfig(t, shared, "admin")
		cfg.WrapTransport = func(base http.RoundTripper) http.RoundTripper { network.RoundTripper = base; return network }
		m, err := manager.New(cfg, manager.Options{Scheme: newScheme(t), LeaderElection: &leaderelection.Options{
			Namespace: ns, Name: "e2e", Identity: name,
			LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 200 * time.Millisecond,
		}})
		require.NoError(t, err)
		return runManager(t, m), network
	}
	elected := func(r *running) {
		t.Helper()
		select {
		case <-r.Elected():
		case err := <-r.ended:
			require.NoError(t, err)
			t.Fatal("it ended")
		case <-time.After(deadline):
			t.Fatalf("not elected: %+v", *r.Report().Election)
		}
	}
	lease := func() *coordinationv1.Lease {
		l, err := rest.ResourceFor[*coordinationv1.Lease](client).Get(t.Context(), object.Key{Namespace: ns, Name: "e2e"}, metav1.GetOptions{})
		require.NoError(t, err)
		return l
	}
	a, networkOfA := contender("a")
	elected(a)
	require.Equal(t, "a", *lease().Spec.HolderIdentity)
	b, _ := contender("b")
	networkOfA.cut.Store(true)
	require.ErrorIs(t, <-a.ended, leaderelection.ErrLost)
	elected(b)
	require.Equal(t, "b", *lease().Spec.HolderIdentity)
	require.EqualValues(t, 2, *lease().Spec.LeaseTransitions)

	c, _ := contender("c")
	b.stop()
	require.NoError(t, <-b.ended)
	elected(c)
	require.EqualValues(t, 3, *lease().Spec.LeaseTransitions)
	c.stop()
	require.NoError(t, <-c.ended)
	require.Equal(t, "", *lease().Spec.HolderIdentity, "released")

	d, _ := contender("d")
	elected(d)
	require.NoError(t, rest.ResourceFor[*coordinationv1.Lease](client).Delete(t.Context(), object.Key{Namespace: ns, Name: "e2e"}, metav1.DeleteOptions{}))
	require.ErrorIs(t, <-d.ended, leaderelection.ErrLost)
}

// TestMetricsAskTheServerWhoMayRead: with TokenReview and SubjectAccessReview.
func TestMetricsAskTheServerWhoMayRead(t *testing.T) {
	client, ns := admin(t)
	address := freeAddress(t)
	m, err := manager.New(loadConfig(t, shared, "admin"), manager.Options{
		Scheme: newScheme(t), Factory: factory.Options{Scope: factory.Scope{Namespaces: []string{ns}}},
		MetricsBindAddress: address, MetricsTLS: &serving.TLS{}, MetricsAccess: true,
	})
	require.NoError(t, err)
	factory.Informer[*corev1.ConfigMap](m.Factory())
	r := runManager(t, m)
	<-m.Elected()
	require.NoError(t, m.WaitForSync(t.Context()))
	https := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer https.CloseIdleConnections()
	read := func(token string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+"/metrics", nil)
		require.NoError(t, err)
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := https.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(body)
	}
	code, _ := read("")
	require.Equal(t, 401, code)
	code, _ = read("made-up")
	require.Equal(t, 401, code)
	code, body := read(shared.NobodyToken)
	require.Equal(t, 403, code)
	require.Equal(t, "nobody may not get /metrics\n", body)
	code, body = read(shared.AdminToken)
	require.Equal(t, 200, code)
	require.Contains(t, body, `millrace_informer_synced{cluster="",resource="configmaps in namespace `+ns+`"} 1`)

	// The role that serving.Access documents grants access.
	_, err = rest.ResourceFor[*rbacv1.ClusterRole](client).Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: ns}, Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = rest.ResourceFor[*rbacv1.ClusterRoleBinding](client).Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: ns},
		Subjects:   []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "nobody"}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	defer forbidMetrics(t, client, ns)
	poll(t, "nobody may read", func() error {
		if code, body := read(shared.NobodyToken); code != 200 {
			return errors.New(body)
		}
		return nil
	})
	r.stop()
	require.NoError(t, <-r.ended)
}

// forbidMetrics deletes the role that grants access to metrics, and waits until the server enforces
// that: other tests share it.
func forbidMetrics(t *testing.T, client *rest.Client, name string) {
	t.Helper()
	require.NoError(t, rest.ResourceFor[*rbacv1.ClusterRoleBinding](client).Delete(t.Context(), object.Key{Name: name}, metav1.DeleteOptions{}))
	require.NoError(t, rest.ResourceFor[*rbacv1.ClusterRole](client).Delete(t.Context(), object.Key{Name: name}, metav1.DeleteOptions{}))
	poll(t, "nobody may read no longer", func() error {
		review, err := rest.ResourceFor[*authorizationv1.SubjectAccessReview](client).Create(t.Context(), &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{User: "nobody",
				NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"}},
		}, metav1.CreateOptions{})
		if err == nil && review.Status.Allowed {
			err = errors.New(review.Status.Reason)
		}
		return err
	})
}

// TestTheServerCallsOurWebhooks: the server trusts our certificate, applies mutations, and returns
// refusals and warnings to the client.
func TestTheServerCallsOurWebhooks(t *testing.T) {
	_, ns := admin(t)
	var logged bytes.Buffer
	cfg := loadConfig(t, shared, "admin")
	cfg.Logger = slog.New(slog.NewTextHandler(&logged, nil))
	client := newClient(t, cfg)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	dir, ca := webhookCertificate(t)
	hooks, err := webhook.New(webhook.Options{Listener: listener, CertDir: dir})
	require.NoError(t, err)
	hooks.Handle("/mutate", webhook.Mutate(func(_ context.Context, r *webhook.Request[*corev1.ConfigMap]) error {
		r.Object.Labels = map[string]string{"seen/by": r.UserInfo.Username}
		return nil
	}))
	hooks.Handle("/validate", webhook.Validate(func(_ context.Context, r *webhook.Request[*corev1.ConfigMap]) error {
		switch {
		case r.Operation == admissionv1.Delete && r.OldObject.Data["colour"] == "gold":
			return errors.New("gold stays")
		case r.Operation == admissionv1.Delete:
		case r.Object.Data["colour"] == "pink":
			return errors.New("pink is not allowed")
		case r.Operation == admissionv1.Update && r.OldObject.Data["colour"] != r.Object.Data["colour"]:
			r.Warn("%s was nicer", r.OldObject.Data["colour"])
		}
		return nil
	}))
	m, err := manager.New(loadConfig(t, shared, "admin"), manager.Options{Scheme: newScheme(t)})
	require.NoError(t, err)
	require.NoError(t, m.Add(hooks))
	r := runManager(t, m)
	<-m.Elected()

	url := "https://" + listener.Addr().String()
	rules := []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
	}}
	all := slices.Clone(rules)
	all[0].Operations = append(all[0].Operations, admissionregistrationv1.Update, admissionregistrationv1.Delete)
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": ns}}
	mutating, err := rest.ResourceFor[*admissionregistrationv1.MutatingWebhookConfiguration](client).Create(t.Context(), &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "mutate.example.com", Rules: rules, NamespaceSelector: selector, AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: new(url + "/mutate"), CABundle: ca},
			SideEffects:  new(admissionregistrationv1.SideEffectClassNone),
		}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	validating, err := rest.ResourceFor[*admissionregistrationv1.ValidatingWebhookConfiguration](client).Create(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "validate.example.com", Rules: all, NamespaceSelector: selector, AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: new(url + "/validate"), CABundle: ca},
			SideEffects:  new(admissionregistrationv1.SideEffectClassNone),
		}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	defer func() {
		background := context.WithoutCancel(t.Context())
		key := object.Key{Name: ns}
		require.NoError(t, rest.ResourceFor[*admissionregistrationv1.MutatingWebhookConfiguration](client).Delete(background, key, metav1.DeleteOptions{}), mutating.Name)
		require.NoError(t, rest.ResourceFor[*admissionregistrationv1.ValidatingWebhookConfiguration](client).Delete(background, key, metav1.DeleteOptions{}), validating.Name)
		r.stop()
		require.NoError(t, <-r.ended)
	}()

	configMaps := rest.ResourceFor[*corev1.ConfigMap](client).Namespace(ns)
	create := func(colour string) (*corev1.ConfigMap, error) {
		return configMaps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "a-"}, Data: map[string]string{"colour": colour}}, metav1.CreateOptions{})
	}
	// The server takes a moment to load new configurations.
	poll(t, "what is pink is refused", func() error {
		_, err := create("pink")
		if apierrors.IsForbidden(err) && strings.Contains(err.Error(), "pink is not allowed") {
			return nil
		}
		return fmt.Errorf("the answer was %w", err)
	})
	var made *corev1.ConfigMap
	poll(t, "what is red is changed", func() (err error) {
		made, err = create("red")
		if err == nil && made.Labels["seen/by"] != "admin" {
			err = fmt.Errorf("the labels are %v", made.Labels)
		}
		return err
	})
	made.Data["colour"] = "gold"
	made, err = configMaps.Update(t.Context(), made, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.Contains(t, logged.String(), "red was nicer", "a warning")
	err = configMaps.Delete(t.Context(), object.KeyOf(made), metav1.DeleteOptions{})
	require.True(t, apierrors.IsForbidden(err), "%v", err)
	require.ErrorContains(t, err, "gold stays")
	made.Data["colour"] = "blue"
	_, err = configMaps.Update(t.Context(), made, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.NoError(t, configMaps.Delete(t.Context(), object.KeyOf(made), metav1.DeleteOptions{}))
}

// TestTheServerConvertsByOurWebhook: an object written in one version is read in the other.
func TestTheServerConvertsByOurWebhook(t *testing.T) {
	client, ns := admin(t)
	group := strings.ReplaceAll(ns, "-", "") + ".example.com"
	version := func(v string) schema.GroupVersion { return schema.GroupVersion{Group: group, Version: v} }
	type barrelObject = *unstructured.Unstructured
	c := webhook.NewConversion[barrelObject](version("v2"), "Barrel")
	webhook.Spoke(c, version("v1"), func(_ context.Context, in, out barrelObject) error {
		litres, _, err := unstructured.NestedInt64(in.Object, "litres")
		return errors.Join(err, unstructured.SetNestedField(out.Object, fmt.Sprint(litres, "l"), "size"))
	}, func(_ context.Context, in, out barrelObject) error {
		size, _, err := unstructured.NestedString(in.Object, "size")
		var litres int64
		_, bad := fmt.Sscanf(size, "%dl", &litres)
		return errors.Join(err, bad, unstructured.SetNestedField(out.Object, litres, "litres"))
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	dir, ca := webhookCertificate(t)
	hooks, err := webhook.New(webhook.Options{Listener: listener, CertDir: dir})
	require.NoError(t, err)
	hooks.Handle("/convert", c)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- hooks.Run(ctx) }()
	t.Cleanup(func() { cancel(); require.NoError(t, <-ended) }) // after the definition was deleted

	served := func(v, field, is string, storage bool) any {
		return map[string]any{"name": v, "served": true, "storage": storage, "schema": map[string]any{"openAPIV3Schema": map[string]any{
			"type": "object", "properties": map[string]any{field: map[string]any{"type": is}},
		}}}
	}
	made, err := rest.ResourceForKind[barrelObject](client, crdKind).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "barrels." + group},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced", "names": map[string]any{"kind": "Barrel", "plural": "barrels"},
			"versions": []any{served("v1", "litres", "integer", true), served("v2", "size", "string", false)},
			"conversion": map[string]any{"strategy": "Webhook", "webhook": map[string]any{
				"conversionReviewVersions": []any{"v1"},
				"clientConfig":             map[string]any{"url": "https://" + listener.Addr().String() + "/convert", "caBundle": base64.StdEncoding.EncodeToString(ca)},
			}},
		},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { undefine(t, client, made.GetName(), made.GetUID()) })

	barrels := func(v string) *rest.Resource[barrelObject] {
		return rest.ResourceForMapping[barrelObject](client, discovery.Mapping{Kind: version(v).WithKind("Barrel"), Resource: version(v).WithResource("barrels"), Namespaced: true}).Namespace(ns)
	}
	barrel := func(name, field string, value any) barrelObject {
		return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name, "labels": map[string]any{"a": "b"}}, field: value}}
	}
	poll(t, "barrels are served and converted", func() error {
		_, err := barrels("v2").Create(t.Context(), barrel("new", "size", "7l"), metav1.CreateOptions{})
		return err
	})
	_, err = barrels("v1").Create(t.Context(), barrel("old", "litres", int64(9)), metav1.CreateOptions{})
	require.NoError(t, err)
	got, err := barrels("v1").Get(t.Context(), object.Key{Name: "new"}, metav1.GetOptions{})
	require.NoError(t, err)
	require.EqualValues(t, 7, got.Object["litres"])
	require.Equal(t, map[string]string{"a": "b"}, got.GetLabels())
	sizes := map[string]any{}
	for o, err := range barrels("v2").List(t.Context(), metav1.ListOptions{}).Items {
		require.NoError(t, err)
		sizes[o.GetName()] = o.Object["size"]
	}
	require.Equal(t, map[string]any{"new": "7l", "old": "9l"}, sizes)
}

// webhookCertificate makes a directory with a certificate for the loopback address, and returns the
// certificate authority for clients.
func webhookCertificate(t *testing.T) (dir string, ca []byte) {
	t.Helper()
	dir = t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "webhook"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tls.crt"), ca, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tls.key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), 0o600))
	return dir, ca
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

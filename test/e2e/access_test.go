package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/sharedinformer"
)

func keep(seen *failures) func(context.Context, *failure.Failure) failure.Verdict {
	return func(_ context.Context, f *failure.Failure) failure.Verdict {
		seen.add(f)
		return failure.Retry
	}
}

// TestForbidden: a user without rights learns why the informer does not sync, and the informer
// syncs once the rights are granted.
func TestForbidden(t *testing.T) {
	boss, ns := admin(t)
	nobody := connect(t, shared, "nobody")
	opts := factory.Options{Scope: factory.Scope{Namespaces: []string{ns}}}
	opts.Timing.Backoff, opts.SyncPatience = brisk, 100*time.Millisecond
	f := factory.New(nobody, opts)
	informer := factory.Informer[*corev1.ConfigMap](f)
	configMaps := attach(t, informer, rest.ResourceFor[*corev1.ConfigMap](boss).Namespace(ns), sharedinformer.Options{Timing: opts.Timing, SyncPatience: opts.SyncPatience})
	factory.Informer[*corev1.Pod](f)
	ctx, cancel := context.WithCancel(t.Context())
	defer f.Wait()
	defer cancel()
	f.Start(ctx)

	within, stop := context.WithTimeout(ctx, deadline)
	defer stop()
	err := f.WaitForSync(within)
	require.ErrorIs(t, err, sharedinformer.ErrNotSynced)
	require.NoError(t, within.Err(), "patience ends long before the context")
	for _, resource := range []string{"configmaps", "pods"} {
		require.Regexp(t, `(?m)`+resource+` in namespace `+ns+`: (list|watch open): forbidden: .*`+resource+` is forbidden: User "nobody" cannot (list|watch) resource "`+resource+
			`" in API group "" in the namespace "`+ns+`" \(\d+ attempts?, (last )?0s ago\)`, err.Error())
	}
	require.NotContains(t, err.Error(), shared.NobodyToken)
	require.True(t, apierrors.IsForbidden(err), "%v", err)
	require.True(t, configMaps.Status().Reflector.Failure.Refused())

	grant(t, boss, ns)
	configMaps.awaitStatus("the informer uses its new rights", func(s sharedinformer.Status) bool { return s.Synced })
	configMaps.agree()
	_, err = rest.ResourceFor[*corev1.ConfigMap](boss).Namespace(ns).Create(t.Context(), configMap(1), metav1.CreateOptions{})
	require.NoError(t, err)
	configMaps.agree()
}

// grant allows the user nobody to read the configmaps of a namespace.
func grant(t *testing.T, client *rest.Client, ns string) {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: ns, Name: "read"}
	_, err := rest.ResourceFor[*rbacv1.Role](client).Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch"}},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = rest.ResourceFor[*rbacv1.RoleBinding](client).Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: meta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "read"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "nobody"}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

// TestIdentities asks the server for the client's user name.
func TestIdentities(t *testing.T) {
	t.Parallel()
	plain := loadConfig(t, shared, "admin")
	impersonating := plain.Clone()
	impersonating.Impersonate = config.Impersonation{UserName: "ann", Groups: []string{"shop"}}
	tokenFile := plain.Clone()
	tokenFile.BearerToken, tokenFile.BearerTokenFile = "", filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(tokenFile.BearerTokenFile, []byte(shared.AdminToken+"\n"), 0o600))
	wrong := plain.Clone()
	wrong.BearerToken = "wrong"
	for _, tc := range []struct {
		name string
		cfg  *config.Config
		want string
	}{
		{"token", plain, "admin"},
		{"certificate", loadConfig(t, shared, "admin-cert"), "admin-cert"},
		{"token file", tokenFile, "admin"},
		{"no rights", loadConfig(t, shared, "nobody"), "nobody"},
		{"impersonation", impersonating, "ann"},
		{"exec plugin", execConfig(t, "v1", `"token": "`+shared.AdminToken+`"`), "admin"},
		{"exec plugin v1beta1", execConfig(t, "v1beta1", `"token": "`+shared.AdminToken+`"`), "admin"},
		{"exec plugin with a certificate", execConfig(t, "v1", certificate(t)), "admin-cert"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := whoAmI(t, tc.cfg)
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
	_, err := whoAmI(t, wrong)
	require.True(t, apierrors.IsUnauthorized(err), "%v", err)
}

// whoAmI returns the client's user name according to the server.
func whoAmI(t *testing.T, cfg *config.Config) (string, error) {
	t.Helper()
	reviews := rest.ResourceFor[*authenticationv1.SelfSubjectReview](newClient(t, cfg))
	r, err := reviews.Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return r.Status.UserInfo.Username, nil
}

// execConfig loads a kubeconfig whose user is a script that prints the status. Each run of the
// script adds a line to the file "runs" in its directory.
func execConfig(t *testing.T, version, status string) *config.Config {
	t.Helper()
	dir := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\necho run >> %q\ncat <<'END'\n"+
		`{"apiVersion": "client.authentication.k8s.io/%s", "kind": "ExecCredential", "status": {%s}}`+"\nEND\n",
		filepath.Join(dir, "runs"), version, status)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "plugin"), []byte(script), 0o700))
	kubeconfig := fmt.Sprintf(`
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: k, user: u, namespace: here}}]
clusters: [{name: k, cluster: {server: %q, certificate-authority: %q}}]
users: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io/%s, command: ./plugin, interactiveMode: Never}}}]
`, shared.URL, shared.CAFile, version)
	file := filepath.Join(dir, "config")
	require.NoError(t, os.WriteFile(file, []byte(kubeconfig), 0o600))
	cfg, err := config.LoadWith(config.LoadOptions{Kubeconfig: file})
	require.NoError(t, err)
	require.Equal(t, "here", cfg.Namespace)
	return cfg
}

func certificate(t *testing.T) string {
	t.Helper()
	cert, err := os.ReadFile(shared.ClientCert)
	require.NoError(t, err)
	key, err := os.ReadFile(shared.ClientKey)
	require.NoError(t, err)
	return fmt.Sprintf(`"clientCertificateData": %q, "clientKeyData": %q`, cert, key)
}

// TestExecPluginRuns counts the runs of the plugin: one for many requests, and another one after
// the server has rejected the token.
func TestExecPluginRuns(t *testing.T) {
	t.Parallel()
	cfg := execConfig(t, "v1", `"token": "`+shared.AdminToken+`", "expirationTimestamp": "2100-01-01T00:00:00Z"`)
	dir := filepath.Dir(cfg.Exec.Command)
	client := newClient(t, cfg)
	ns := newNamespace(t, client)
	f := follow(t, rest.ResourceFor[*corev1.ConfigMap](client).Namespace(ns), sharedinformer.Options{})
	f.sync()
	for n := range 10 {
		_, err := rest.ResourceFor[*corev1.ConfigMap](client).Namespace(ns).Create(t.Context(), configMap(n), metav1.CreateOptions{})
		require.NoError(t, err)
	}
	f.agree()
	require.Equal(t, 1, runs(t, dir))

	// The plugin returns a token that the server rejects, and then a valid one.
	stale := execConfig(t, "v1", `"token": "stale"`)
	dir = filepath.Dir(stale.Exec.Command)
	client = newClient(t, stale)
	_, err := client.Raw(t.Context(), "/api/v1/nodes")
	require.True(t, apierrors.IsUnauthorized(err), "%v", err)
	text, err := os.ReadFile(filepath.Join(dir, "plugin"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "plugin"), []byte(strings.Replace(string(text), "stale", shared.AdminToken, 1)), 0o700))
	poll(t, "the new token is fetched", func() error {
		_, err := client.Raw(t.Context(), "/api/v1/nodes")
		return err
	})
}

func runs(t *testing.T, dir string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "runs"))
	require.NoError(t, err)
	return strings.Count(string(text), "run\n")
}

// TestKubeconfigFromEnvironment finds the server as a program without flags does.
func TestKubeconfigFromEnvironment(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none")+string(filepath.ListSeparator)+shared.Kubeconfig)
	cfg, err := config.Load()
	require.NoError(t, err)
	got, err := whoAmI(t, cfg)
	require.NoError(t, err)
	require.Equal(t, "admin", got)
}

// TestGzip reads a list that the server compresses, and a watch.
func TestGzip(t *testing.T) {
	t.Parallel()
	cfg := loadConfig(t, shared, "admin")
	var compressed atomic.Int32
	cfg.AcceptGzip = true
	cfg.WrapTransport = func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			resp, err := next.RoundTrip(r)
			if err == nil && resp.Uncompressed {
				compressed.Add(1)
			}
			return resp, err
		})
	}
	client := newClient(t, cfg)
	ns := newNamespace(t, client)
	maps := rest.ResourceFor[*corev1.ConfigMap](client).Namespace(ns)
	for n := range 5 { // the server compresses from 128 KiB on
		c := configMap(n)
		c.Data["long"] = strings.Repeat("millrace ", 10_000)
		_, err := maps.Create(t.Context(), c, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	opts := sharedinformer.Options{}
	opts.Initial = reflector.List
	compressed.Store(0)
	f := follow(t, maps, opts)
	f.sync()
	require.EqualValues(t, 1, compressed.Load())
	_, err := maps.Create(t.Context(), configMap(10), metav1.CreateOptions{})
	require.NoError(t, err)
	f.agree()
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

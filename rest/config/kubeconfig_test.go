package config

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/test/hostile"
)

// isolate hides the machine's kubeconfig and service account, and returns an empty home
// directory.
func isolate(t *testing.T) (home string) {
	t.Helper()
	home = t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("KUBECONFIG", "")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("KUBERNETES_SERVICE_PORT", "")
	t.Setenv("POD_NAMESPACE", "")
	return home
}

const twoContexts = `
apiVersion: v1
kind: Config
current-context: one
preferences: {}
clusters:
- name: east
  cluster:
    server: https://east:6443/prefix
    certificate-authority: pki/ca.crt
    tls-server-name: api.east
    proxy-url: socks5://proxy:1080
    disable-compression: true
    extensions:
    - name: client.authentication.k8s.io/exec
      extension: {audience: east}
- name: west
  cluster: {server: "https://west", insecure-skip-tls-verify: true}
contexts:
- name: one
  context: {cluster: east, user: alice, namespace: '123'}
- name: two
  context: {cluster: west, user: bob}
users:
- name: alice
  user:
    client-certificate: pki/alice.crt
    client-key: /abs/alice.key
    tokenFile: tokens/alice
    token: '12345'
    as: root
    as-uid: "0"
    as-groups: [wheel]
    as-user-extra: {reason: [a, b]}
- name: bob
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: ./plugin
      args: [get-token]
      env: [{name: REGION, value: eu}]
      interactiveMode: IfAvailable
      provideClusterInfo: true
      installHint: install it
`

func TestKubeconfigFields(t *testing.T) {
	isolate(t)
	dir := t.TempDir()
	path := writeFile(t, filepath.Join(dir, "config"), []byte(twoContexts))
	c, err := LoadWith(LoadOptions{Kubeconfig: path})
	require.NoError(t, err)
	require.Equal(t, &Config{
		Host:            "https://east:6443/prefix",
		Namespace:       "123",
		ProxyURL:        "socks5://proxy:1080",
		BearerToken:     "12345",
		BearerTokenFile: filepath.Join(dir, "tokens/alice"),
		Impersonate:     Impersonation{UserName: "root", UID: "0", Groups: []string{"wheel"}, Extra: map[string][]string{"reason": {"a", "b"}}},
		TLS: TLS{
			ServerName: "api.east",
			CAFile:     filepath.Join(dir, "pki/ca.crt"),
			CertFile:   filepath.Join(dir, "pki/alice.crt"),
			KeyFile:    "/abs/alice.key",
		},
	}, c)

	c, err = LoadWith(LoadOptions{Kubeconfig: path, Context: "two"})
	require.NoError(t, err)
	require.Equal(t, &Config{
		Host:      "https://west",
		Namespace: "default",
		TLS:       TLS{Insecure: true},
		Exec: &Exec{
			Command: filepath.Join(dir, "plugin"), Args: []string{"get-token"}, Env: []string{"REGION=eu"},
			APIVersion: execV1, InstallHint: "install it", ProvideClusterInfo: true, InteractiveMode: ExecIfAvailable,
		},
	}, c)

	t.Chdir(dir)
	c, err = LoadWith(LoadOptions{Kubeconfig: "config", Context: "two"})
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, "plugin"), c.Exec.Command, "a path must not become a name to look up in PATH")

	c, err = LoadWith(LoadOptions{Kubeconfig: path, Context: "two", Cluster: "east", Namespace: "ns", Server: "https://elsewhere",
		CertificateAuthority: "/ca", TLSServerName: "name", ProxyURL: "http://p:1", Impersonate: Impersonation{UserName: "eve"}, UserAgent: "ua", Timeout: 7})
	require.NoError(t, err)
	require.Equal(t, "https://elsewhere", c.Host)
	require.Equal(t, "ns", c.Namespace)
	require.Equal(t, TLS{CAFile: "/ca", ServerName: "name"}, c.TLS)
	require.Equal(t, "http://p:1", c.ProxyURL)
	require.Equal(t, "eve", c.Impersonate.UserName)
	require.JSONEq(t, `{"audience":"east"}`, string(c.Exec.ClusterConfig))
	require.Equal(t, "ua", c.UserAgent)
	require.EqualValues(t, 7, c.Timeout)

	c, err = LoadWith(LoadOptions{Kubeconfig: path, User: "bob", Token: "mine", InsecureSkipTLSVerify: true})
	require.NoError(t, err)
	require.Equal(t, "mine", c.BearerToken)
	require.Nil(t, c.Exec)
	require.Equal(t, TLS{Insecure: true, ServerName: "api.east"}, c.TLS)
}

// Keys are case-sensitive, as in kubectl: a check with kubectl's code that an untrusted
// kubeconfig names no program must hold here too.
func TestKubeconfigKeysMatchByCase(t *testing.T) {
	const good = `{current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: 'https://good', %s}}], users: [{name: u, user: {token: t, %s}}]}`
	want, err := Parse(fmt.Appendf(nil, good, "", ""))
	require.NoError(t, err)
	for _, other := range []struct{ cluster, user string }{
		{cluster: "serveR: 'https://evil'"},
		{cluster: "SERVER: 'https://evil'"},
		{cluster: "\"\u017ferver\": 'https://evil'"}, // a long s, which folds to s
		{cluster: "Insecure-Skip-TLS-Verify: true"},
		{cluster: "Proxy-URL: 'http://evil'"},
		{user: "to\u212aen: other"}, // the kelvin sign, which folds to k
		{user: "TokenFile: /etc/passwd"},
		{user: "EXEC: {command: evil, apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never}"},
	} {
		got, err := Parse(fmt.Appendf(nil, good, other.cluster, other.user))
		require.NoError(t, err)
		require.Equal(t, want, got, "%v", other)
	}
}

func TestKubeconfigMergeOrder(t *testing.T) {
	isolate(t)
	dir := t.TempDir()
	first := writeFile(t, filepath.Join(dir, "a", "config"), []byte(`
clusters:
- {name: shared, cluster: {server: "https://first", certificate-authority: ca}}
users:
- {name: red, user: {tokenFile: red}}
`))
	second := writeFile(t, filepath.Join(dir, "b", "config"), []byte(`{
"current-context": "main",
"clusters": [{"name": "shared", "cluster": {"server": "https://second", "tls-server-name": "second"}}],
"users": [{"name": "red", "user": {"username": "other", "password": "x"}}],
"contexts": [{"name": "main", "context": {"cluster": "shared", "user": "red"}}]}`))
	third := writeFile(t, filepath.Join(dir, "c", "config"), []byte(`
current-context: other
contexts:
- {name: main, context: {cluster: none, user: none}}
- {name: other, context: {cluster: shared, user: blue, namespace: third}}
users:
- {name: blue, user: {token: blue}}
- {name: bare, user: {exec: {command: in-path, apiVersion: client.authentication.k8s.io/v1beta1}}}
`))
	missing := filepath.Join(dir, "missing")
	t.Setenv("KUBECONFIG", strings.Join([]string{missing, first, "", second, first, third}, string(filepath.ListSeparator)))
	c, err := Load()
	require.NoError(t, err)
	require.Equal(t, &Config{
		Host: "https://first", Namespace: "default",
		TLS:             TLS{CAFile: filepath.Join(dir, "a", "ca")},
		BearerTokenFile: filepath.Join(dir, "a", "red"),
	}, c, "entries of the same name must not be mixed")

	c, err = LoadWith(LoadOptions{Context: "other"})
	require.NoError(t, err)
	require.Equal(t, "third", c.Namespace)
	require.Equal(t, "blue", c.BearerToken)

	c, err = LoadWith(LoadOptions{User: "bare"})
	require.NoError(t, err)
	require.Equal(t, "in-path", c.Exec.Command)

	_, err = LoadWith(LoadOptions{Kubeconfig: missing})
	require.ErrorIs(t, err, os.ErrNotExist, "an explicit file must exist")
	require.ErrorContains(t, err, missing)
}

func TestLoadConfigFallsBackToHomeAndPod(t *testing.T) {
	home := isolate(t)
	_, err := Load()
	require.ErrorIs(t, err, ErrNoConfig)
	require.ErrorIs(t, err, ErrNotInCluster)
	require.ErrorContains(t, err, filepath.Join(home, ".kube", "config")+" does not exist")
	require.ErrorContains(t, err, "set KUBECONFIG")

	account := podAccount(t)
	c, err := LoadWith(LoadOptions{serviceAccountDir: account, Namespace: "mine"})
	require.NoError(t, err)
	require.Equal(t, "https://10.0.0.1:443", c.Host)
	require.Equal(t, "mine", c.Namespace)

	_, err = LoadWith(LoadOptions{serviceAccountDir: account, Context: "prod"})
	require.ErrorIs(t, err, ErrNoConfig, "a pod has no contexts: the wrong cluster would answer")

	path := writeFile(t, filepath.Join(home, ".kube", "config"), []byte(twoContexts))
	c, err = LoadWith(LoadOptions{serviceAccountDir: account})
	require.NoError(t, err)
	require.Equal(t, "https://east:6443/prefix", c.Host, "a kubeconfig goes before the pod")

	writeFile(t, path, nil)
	c, err = LoadWith(LoadOptions{serviceAccountDir: account})
	require.NoError(t, err)
	require.Equal(t, "https://10.0.0.1:443", c.Host, "an empty kubeconfig is none")

	_, err = LoadWith(LoadOptions{serviceAccountDir: account, Kubeconfig: path})
	require.ErrorContains(t, err, path+" is empty")

	c, err = LoadWith(LoadOptions{Server: "http://localhost:8001"})
	require.NoError(t, err)
	require.Equal(t, &Config{Host: "http://localhost:8001", Namespace: "default"}, c)
}

func TestKubeconfigComplaints(t *testing.T) {
	isolate(t)
	const form = `
current-context: %s
clusters:
- {name: c, cluster: {server: "https://c"}}
- {name: none, cluster: {}}
- {name: plain, cluster: {server: "http://c"}}
contexts:
- {name: main, context: {cluster: c, user: u}}
- {name: nocluster, context: {user: u}}
- {name: nouser, context: {cluster: c, user: missing}}
- {name: noserver, context: {cluster: none}}
users:
- {name: u, user: {%s}}
`
	for name, tc := range map[string]struct{ text, want string }{
		"no current context":  {fmt.Sprintf(form, `""`, ""), `choose one of "main", "nocluster", "noserver", "nouser"`},
		"unknown context":     {fmt.Sprintf(form, "nope", ""), `there is no context "nope": choose one of "main"`},
		"context w/o cluster": {fmt.Sprintf(form, "nocluster", ""), `has no cluster: choose one of "c", "none"`},
		"unknown user":        {fmt.Sprintf(form, "nouser", ""), `there is no user "missing": choose one of "u"`},
		"no server":           {fmt.Sprintf(form, "noserver", ""), `cluster "none" has no server`},
		"two certificates":    {fmt.Sprintf(form, "main", "client-certificate: a, client-certificate-data: eA==, client-key: k"), "client certificate is given both as a file and inline"},
		"no key":              {fmt.Sprintf(form, "main", "client-certificate: a"), "without its private key"},
		"no certificate":      {fmt.Sprintf(form, "main", "client-key: a"), "without its client certificate"},
		"token and basic":     {fmt.Sprintf(form, "main", "token: a, username: b, password: c"), "both a bearer token and a user name"},
		"auth-provider":       {fmt.Sprintf(form, "main", "auth-provider: {name: gcp}"), `auth-provider "gcp" is not supported: use an exec plugin`},
		"groups alone":        {fmt.Sprintf(form, "main", "as-groups: [a]"), "without a user name"},
		"exec v1alpha1":       {fmt.Sprintf(form, "main", "exec: {command: p, apiVersion: client.authentication.k8s.io/v1alpha1}"), "v1alpha1"},
		"exec mode":           {fmt.Sprintf(form, "main", "exec: {command: p, apiVersion: client.authentication.k8s.io/v1}"), "interactiveMode"},
		"exec command":        {fmt.Sprintf(form, "main", "exec: {apiVersion: client.authentication.k8s.io/v1}"), "no command"},
		"two users":           {fmt.Sprintf(form, "main", "token: a") + "- {name: u, user: {token: b}}\n", `there are two users "u": remove one`},
		"not a kubeconfig":    {"apiVersion: v1\nkind: Secret\n", `kind "Secret"`},
		"syntax":              {"clusters:\n  - name: [\nusers: x", "line 3"},
		"type":                {"clusters: {a: b}", "clusters contains a JSON object, but a list is expected"},
		"number":              {fmt.Sprintf(form, "main", "token: 0123456"), "users.user.token contains a JSON number, but a string is expected: put it in quotes"},
		"bad base64":          {fmt.Sprintf(form, "main", "client-key-data: '%%'"), "not valid base64"},
	} {
		t.Run(name, func(t *testing.T) {
			path := writeFile(t, filepath.Join(t.TempDir(), "config"), []byte(tc.text))
			_, err := LoadWith(LoadOptions{Kubeconfig: path})
			require.ErrorContains(t, err, tc.want)
			require.ErrorContains(t, err, path)
		})
	}

	_, err := ParseWith(nil, LoadOptions{Kubeconfig: "x"})
	require.ErrorContains(t, err, "Load")
}

// An untrusted kubeconfig can use the files and programs of this machine, unless that
// is forbidden.
func TestKubeconfigsThatNameFilesOrPrograms(t *testing.T) {
	const form = `{current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}], clusters: [{name: c, cluster: {server: 'https://c', %s}}], users: [{name: u, user: {%s}}]}`
	for _, c := range []struct{ cluster, user, want string }{
		{want: ""},
		{user: "token: t", want: ""},
		{cluster: "certificate-authority-data: eA==", user: "client-certificate-data: eA==, client-key-data: eA==", want: ""},
		{user: "tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token", want: "a file with a token"},
		{user: "client-certificate: a, client-key-data: eA==", want: "a file with a client certificate"},
		{user: "client-certificate-data: eA==, client-key: a", want: "a file with a client certificate"},
		{cluster: "certificate-authority: a", want: "a file with a certificate authority"},
		{user: "exec: {command: a, apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never}", want: "a program"},
	} {
		text := fmt.Appendf(nil, form, c.cluster, c.user)
		_, err := Parse(text)
		require.NoError(t, err)
		_, err = ParseWith(text, LoadOptions{Inline: true})
		if c.want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, "it refers to "+c.want)
	}
}

// The certificate's name belongs to the server and does not apply to another one.
func TestAnotherServerHasAnotherName(t *testing.T) {
	text := []byte(`{current-context: x, contexts: [{name: x, context: {cluster: c}}], clusters: [{name: c, cluster: {server: 'https://10.0.0.1', tls-server-name: inner}}]}`)
	for _, c := range []struct {
		o    LoadOptions
		want string
	}{
		{LoadOptions{}, "inner"},
		{LoadOptions{Server: "https://other"}, ""},
		{LoadOptions{TLSServerName: "mine"}, "mine"},
		{LoadOptions{Server: "https://other", TLSServerName: "mine"}, "mine"},
	} {
		got, err := ParseWith(text, c.o)
		require.NoError(t, err)
		require.Equal(t, c.want, got.TLS.ServerName)
	}
}

func TestKubeconfigCredentialsDoNotGoOverHTTP(t *testing.T) {
	const form = `
current-context: main
clusters: [{name: c, cluster: {server: "%s"}}]
contexts: [{name: main, context: {cluster: c, user: u}}]
users: [{name: u, user: {as: jane, %s}}]
`
	for _, user := range []string{
		"token: marked", "tokenFile: marked", "username: a, password: b",
		"exec: {command: p, apiVersion: client.authentication.k8s.io/v1beta1}",
	} {
		for _, server := range []string{"http://x", "HTTP://x", "x:8080"} {
			var log bytes.Buffer
			c, err := ParseWith(fmt.Appendf(nil, form, server, user), LoadOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			require.NoError(t, err)
			require.Contains(t, log.String(), "not sent")
			c.Logger = nil
			require.Equal(t, &Config{Host: server, Namespace: "default", Impersonate: Impersonation{UserName: "jane"}}, c)
		}
	}
	c, err := ParseWith(fmt.Appendf(nil, form, "http://x", "token: marked"), LoadOptions{Token: "mine"})
	require.NoError(t, err)
	require.Equal(t, "mine", c.BearerToken, "what the caller asks for is done")
}

func TestConfigComplaints(t *testing.T) {
	for _, tc := range []struct {
		config Config
		want   string
	}{
		{Config{}, "no server is set"},
		{Config{Host: "ftp://x"}, `scheme "ftp"`},
		{Config{Host: "https://me:marked-secret@x"}, "contains a user name"},
		{Config{Host: "https://x:marked-secret"}, "is not a URL"},
		{Config{Host: "https:///path"}, "has no host"},
		{Config{Host: "https://x?a=marked-secret"}, "a query"},
		{Config{Host: "x", BearerToken: "marked-secret\n"}, "line break"},
		{Config{Host: "x", Password: "marked-secret"}, "without a user name"},
		{Config{Host: "x", Timeout: -1}, "negative"},
		{Config{Host: "x", TLS: TLS{Insecure: true, CAFile: "f"}}, "verification is disabled"},
		{Config{Host: "x", TLS: TLS{CAFile: "f", CAData: []byte("x")}}, "certificate authority is given both"},
		{Config{Host: "x", TLS: TLS{KeyFile: "f", KeyData: []byte("marked-secret"), CertFile: "f"}}, "client key is given both"},
		{Config{Host: "x", Impersonate: Impersonation{UserName: "a\nb"}}, "control character"},
		{Config{Host: "x", Exec: &Exec{Command: "p", APIVersion: execV1beta1, InteractiveMode: "Maybe"}}, `interactiveMode "Maybe"`},
		{Config{Host: "x", Exec: &Exec{Command: "p", APIVersion: execV1beta1, Env: []string{"=marked-secret"}}}, "has no name"},
	} {
		_, _, err := tc.config.HTTPClient()
		require.ErrorContains(t, err, tc.want)
		require.NotContains(t, err.Error(), "marked-secret")
		require.NotContains(t, err.Error(), "\n")
	}
}

func TestConfigBaseURL(t *testing.T) {
	for host, want := range map[string]string{
		"localhost:8080":       "http://localhost:8080",
		"10.0.0.1":             "http://10.0.0.1",
		"https://x/":           "https://x",
		"https://x/a/b/":       "https://x/a/b",
		"https://[fd00::1]:64": "https://[fd00::1]:64",
	} {
		u, err := (&Config{Host: host}).baseURL()
		require.NoError(t, err)
		require.Equal(t, want, u.String())
	}
	u, err := (&Config{Host: "x:1", TLS: TLS{CAFile: "ca"}}).baseURL()
	require.NoError(t, err)
	require.Equal(t, "https://x:1", u.String())
}

func TestConfigCloneSharesNothing(t *testing.T) {
	make := func() *Config {
		return &Config{
			Host:        "h",
			TLS:         TLS{CAData: []byte("a"), CertData: []byte("b"), KeyData: []byte("c")},
			Impersonate: Impersonation{UserName: "u", Groups: []string{"g"}, Extra: map[string][]string{"k": {"v"}}},
			Exec:        &Exec{Command: "p", Args: []string{"x"}, Env: []string{"A=b"}, ClusterConfig: []byte("{}")},
		}
	}
	c, d := make(), make().Clone()
	require.Equal(t, c, d)
	d = c.Clone()
	d.TLS.CAData[0], d.TLS.CertData[0], d.TLS.KeyData[0] = 'x', 'x', 'x'
	d.Impersonate.Groups[0], d.Impersonate.Extra["k"][0] = "x", "x"
	d.Exec.Args[0], d.Exec.Env[0], d.Exec.ClusterConfig[0] = "y", "y", 'y'
	require.Equal(t, make(), c)
}

func FuzzKubeconfig(f *testing.F) {
	f.Add([]byte(twoContexts))
	f.Add([]byte(`{"clusters":[{"name":"a","cluster":null}],"users":[null],"contexts":[{}],"current-context":""}`))
	f.Add([]byte("a: &a [*a]\n"))
	f.Add([]byte("users: [{name: x, user: {token: *x}}]"))
	f.Add([]byte("? [a]\n: b"))
	budget := hostile.Budget{Memory: 4 << 20, MemoryPerByte: 1000} // YAML is converted to JSON first
	var kept hostile.Kept
	f.Fuzz(func(t *testing.T, data []byte) {
		kept.Nothing(t)
		budget.Within(t, len(data), func() { _, _ = Parse(data) })
		if k, err := parseKubeconfig(data); err == nil {
			k.resolvePaths("/dir")
			var merged kubeconfig
			merged.merge(k)
			merged.merge(k)
			require.Equal(t, k.empty(), merged.empty())
		}
		c, err := Parse(data)
		if err != nil {
			require.Nil(t, c)
			return
		}
		require.NotEmpty(t, c.Namespace)
		_, err = c.baseURL()
		require.NoError(t, err, "a configuration that was accepted must have a usable server")
	})
}

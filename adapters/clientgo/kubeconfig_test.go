package clientgo_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientrest "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/millrace-dev/millrace/rest/config"
)

// kubeconfig returns a kubeconfig with one context.
func kubeconfig(cluster, user string) string {
	return "apiVersion: v1\nkind: Config\nclusters:\n- name: c\n  cluster: {" + cluster + "}\nusers:\n- name: u\n  user: {" + user + "}\n" +
		"contexts:\n- name: x\n  context: {cluster: c, user: u, namespace: shop}\ncurrent-context: x\n"
}

// byClientGo returns how client-go interprets a kubeconfig, including the errors of its transport.
func byClientGo(path string, o *clientcmd.ConfigOverrides) (string, error) {
	loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(&clientcmd.ClientConfigLoadingRules{ExplicitPath: path}, o)
	c, err := loaded.ClientConfig()
	if err != nil {
		return "", err
	}
	if _, err := clientrest.TransportFor(c); err != nil {
		return "", err
	}
	base, _, err := clientrest.DefaultServerURL(c.Host, "", schema.GroupVersion{}, clientrest.IsConfigTransportTLS(*c))
	if err != nil {
		return "", err
	}
	namespace, _, err := loaded.Namespace()
	proxy, plugin := "", ""
	if c.Proxy != nil {
		u, _ := c.Proxy(nil)
		proxy = u.String()
	}
	if e := c.ExecProvider; e != nil {
		var env []string
		for _, v := range e.Env {
			env = append(env, v.Name+"="+v.Value)
		}
		plugin = understood(e.Command, e.Args, env, e.APIVersion, e.ProvideClusterInfo)
	}
	token := c.BearerToken
	if c.BearerTokenFile != "" {
		token = "" // the file was read
	}
	return understood(strings.TrimRight(base.String(), "/"), namespace, token, c.BearerTokenFile, c.Username, c.Password, c.Insecure, c.ServerName, c.CAFile, string(c.CAData), c.CertFile, string(c.CertData), c.Impersonate, proxy, plugin), err
}

// byMillrace returns how Millrace interprets it.
func byMillrace(o config.LoadOptions) (string, error) {
	c, err := config.LoadWith(o)
	if err != nil {
		return "", err
	}
	_, base, err := c.HTTPClient()
	if err != nil {
		return "", err
	}
	plugin := ""
	if e := c.Exec; e != nil {
		plugin = understood(e.Command, e.Args, e.Env, e.APIVersion, e.ProvideClusterInfo)
	}
	return understood(base.String(), c.Namespace, c.BearerToken, c.BearerTokenFile, c.Username, c.Password, c.TLS.Insecure, c.TLS.ServerName, c.TLS.CAFile, string(c.TLS.CAData), c.TLS.CertFile, string(c.TLS.CertData), c.Impersonate, c.ProxyURL, plugin), nil
}

func understood(fields ...any) string {
	var b strings.Builder
	for _, f := range fields {
		fmt.Fprintf(&b, "%v|", f)
	}
	return b.String()
}

// Millrace interprets a kubeconfig as client-go does. docs/from-client-go.md has a table of the
// differences; the cases quote its first column.
func TestKubeconfigsMeanTheSame(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("HTTPS_PROXY", "")
	page, err := os.ReadFile("../../docs/from-client-go.md")
	require.NoError(t, err)
	const https = "server: 'https://h:6443'"
	const plugin = "apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never"
	const plugin1 = "apiVersion: client.authentication.k8s.io/v1beta1"
	for name, c := range map[string]struct {
		text    string
		server  string // overrides
		token   string
		refused bool   // by both
		differs string // the row of the table
	}{
		"plain":                      {text: kubeconfig(https, "token: t")},
		"a plugin in capitals":       {text: kubeconfig(https, "EXEC: {command: evil, "+plugin+"}")},
		"a server in capitals":       {text: kubeconfig("SERVER: 'https://evil', "+https+", serveR: 'https://evil'", "token: t")},
		"a server with a long s":     {text: kubeconfig(https+", \u017ferver: 'https://evil'", "token: t, to\u212aen: evil")},
		"insecure in capitals":       {text: kubeconfig(https+", Insecure-Skip-TLS-Verify: true", "token: t")},
		"a token that is a number":   {text: kubeconfig(https, "token: 0123"), refused: true},
		"two users":                  {text: strings.Replace(kubeconfig(https, "token: t"), "users:\n", "users:\n- name: u\n  user: {token: other}\n", 1), refused: true},
		"oidc":                       {text: kubeconfig(https, "auth-provider: {name: oidc}"), refused: true}, // needs an import in client-go
		"another server":             {text: kubeconfig(https+", tls-server-name: inner", "token: t"), server: "https://other:6443"},
		"another server, insecure":   {text: kubeconfig(https+", insecure-skip-tls-verify: true", "token: t"), server: "https://other:6443"},
		"a prefix":                   {text: kubeconfig("server: 'https://h/k8s/clusters/c-1/'", "token: t")},
		"an encoded prefix":          {text: kubeconfig("server: 'https://h/k8s/a%2Fb'", "token: t")},
		"no scheme":                  {text: kubeconfig("server: 'h:6443'", "token: t")},
		"no scheme, insecure":        {text: kubeconfig("server: 'h:6443', insecure-skip-tls-verify: true", "token: t"), differs: "A server without a scheme"},
		"a query":                    {text: kubeconfig("server: 'https://h:6443?a=b'", "token: t"), differs: "A server with a query, a fragment or a user name"},
		"a user in the URL":          {text: kubeconfig("server: 'https://a:b@h:6443'", ""), differs: "A server with a query, a fragment or a user name"},
		"IPv6":                       {text: kubeconfig("server: 'https://[::1]:6443'", "token: t")},
		"IPv6 with a zone":           {text: kubeconfig("server: 'https://[fe80::1%25eth0]:6443'", "token: t")},
		"a socket":                   {text: kubeconfig("server: 'unix:///run/x.sock'", ""), refused: true},
		"token and password":         {text: kubeconfig(https, "token: t, username: a, password: b"), refused: true},
		"token and plugin":           {text: kubeconfig(https, "token: t, exec: {command: x, "+plugin+"}")},
		"a password":                 {text: kubeconfig(https, "username: a, password: b")},
		"a password alone":           {text: kubeconfig(https, "password: b"), differs: "A password without a user name"},
		"a user name alone":          {text: kubeconfig(https, "username: b")},
		"http":                       {text: kubeconfig("server: 'http://h:6443'", "token: t, as: bob")},
		"impersonation":              {text: kubeconfig(https, "token: t, as: bob, as-uid: '7', as-groups: [a, b], as-user-extra: {k: [v, w]}")},
		"groups alone":               {text: kubeconfig(https, "token: t, as-groups: [a]"), refused: true},
		"a proxy":                    {text: kubeconfig(https+", proxy-url: 'socks5://p:1'", "token: t")},
		"a proxy by socks5h":         {text: kubeconfig(https+", proxy-url: 'socks5h://p:1'", "token: t"), differs: "A proxy with scheme socks5h"},
		"a proxy without a scheme":   {text: kubeconfig(https+", proxy-url: 'p:1'", "token: t"), refused: true},
		"a plugin":                   {text: kubeconfig(https, "exec: {command: ./x, args: [a, b], env: [{name: A, value: b}], provideClusterInfo: true, "+plugin+"}")},
		"a plugin without a mode":    {text: kubeconfig(https, "exec: {command: x, apiVersion: client.authentication.k8s.io/v1}"), refused: true},
		"a plugin of v1beta1":        {text: kubeconfig(https, "exec: {command: x, "+plugin1+"}")},
		"a plugin of v1alpha1":       {text: kubeconfig(https, "exec: {command: x, apiVersion: client.authentication.k8s.io/v1alpha1}"), refused: true},
		"a plugin with null":         {text: kubeconfig(https, "exec: {command: x, args: null, env: null, "+plugin1+"}")},
		"an unknown user":            {text: strings.Replace(kubeconfig(https, "token: t"), "user: u,", "user: nobody,", 1), differs: "A context whose user does not exist"},
		"no user":                    {text: strings.Replace(kubeconfig(https, "token: t"), "user: u,", "user: '',", 1)},
		"no current context":         {text: strings.Replace(kubeconfig(https, "token: t"), "current-context: x", "", 1), refused: true},
		"insecure with an authority": {text: kubeconfig(https+", insecure-skip-tls-verify: true, certificate-authority-data: aGk=", "token: t"), refused: true},
		"a key is missing":           {text: kubeconfig(https, "client-certificate: /c"), refused: true},
		"no server":                  {text: kubeconfig("tls-server-name: x", "token: t"), refused: true},
		"a token with a line break":  {text: kubeconfig(https, `token: "t\n"`), differs: "A token with a control character"},
		"another version":            {text: strings.Replace(kubeconfig(https, "token: t"), "apiVersion: v1", "apiVersion: v9", 1), refused: true},
		"no version":                 {text: strings.Replace(kubeconfig(https, "token: t"), "apiVersion: v1\nkind: Config\n", "", 1)},
		"what nobody needs":          {text: kubeconfig(https+", disable-compression: true", "token: t") + "preferences: {colors: true}\nextensions: [{name: a, extension: {b: c}}]\n"},
		"nothing":                    {refused: true},
		"another token":              {text: kubeconfig(https, "client-certificate: /c, client-key: /k"), token: "T", differs: "A token in the options"},
		"a token file":               {text: kubeconfig(https, "tokenFile: t/tok")},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "kubeconfig")
		require.NoError(t, os.WriteFile(path, []byte(c.text), 0o600))
		require.NoError(t, os.Mkdir(filepath.Join(dir, "t"), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "t", "tok"), []byte("token\n"), 0o600))
		o := &clientcmd.ConfigOverrides{}
		o.ClusterInfo.Server, o.AuthInfo.Token = c.server, c.token
		theirs, theirErr := byClientGo(path, o)
		ours, ourErr := byMillrace(config.LoadOptions{Kubeconfig: path, Server: c.server, Token: c.token})
		same := theirs == ours && (theirErr == nil) == (ourErr == nil)
		require.Equal(t, c.differs == "", same, "%s\nclient-go: %s %v\nMillrace:  %s %v", name, theirs, theirErr, ours, ourErr)
		if c.differs == "" {
			require.Equal(t, c.refused, ourErr != nil, "%s: %v", name, ourErr)
		} else {
			require.Contains(t, string(page), "| "+c.differs+" |", name)
		}
	}
}

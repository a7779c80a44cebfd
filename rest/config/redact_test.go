package config

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

func TestConfigPrintsWithoutSecrets(t *testing.T) {
	const mark = "marked-secret"
	c := Config{
		Host: "https://me:" + mark + "@host", Namespace: "ns", BearerToken: mark, Username: "me", Password: mark,
		ProxyURL: "http://me:" + mark + "@proxy:3128",
		TLS:      TLS{CAFile: "ca.crt", KeyData: []byte(mark)},
		Exec:     &Exec{Command: "plugin", Args: []string{mark}, Env: []string{"KEY=" + mark}, ClusterConfig: []byte(mark)},
	}
	o := LoadOptions{Token: mark, Context: "main", Server: "https://me:" + mark + "@host"}
	var texts strings.Builder
	values := []any{c, &c, c.TLS, &c.TLS, *c.Exec, c.Exec, o, &o, []Config{c}, map[string]*Config{"a": &c}, struct{ C Config }{c}}
	client, _, err := (&Config{Host: "https://x", BearerToken: mark, WrapTransport: func(next http.RoundTripper) http.RoundTripper {
		values = append(values, next)
		return next
	}}).HTTPClient()
	require.NoError(t, err)
	values = append(values, client, *client, client.Transport)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%10v"} {
		for _, v := range values {
			fmt.Fprintf(&texts, verb+"\n", v)
		}
	}
	for _, h := range []slog.Handler{slog.NewTextHandler(&texts, nil), slog.NewJSONHandler(&texts, nil)} {
		slog.New(h).Info("all", "c", c, "cp", &c, "tls", c.TLS, "exec", c.Exec, "o", o, "in", values)
	}
	for _, v := range values {
		if _, isFunc := v.(*http.Client); isFunc {
			continue // has a function, which JSON cannot represent
		}
		if _, isFunc := v.(http.Client); isFunc {
			continue
		}
		text, err := json.Marshal(v)
		require.NoError(t, err)
		texts.Write(text)
		text, err = yaml.Marshal(v)
		require.NoError(t, err)
		texts.Write(text)
	}
	for _, form := range []string{mark, base64.StdEncoding.EncodeToString([]byte(mark)), fmt.Sprintf("%x", mark), fmt.Sprintf("%X", mark), strings.Trim(fmt.Sprint([]byte(mark)), "[]")} {
		require.NotContains(t, texts.String(), form)
	}
	require.Equal(t, `config.Config{Host:"https://[redacted]@host", Namespace:"ns", TLS:{CAFile:"ca.crt", KeyData:[redacted]}, BearerToken:[redacted], `+
		`Username:"me", Password:[redacted], Exec:{Command:"plugin", Args:[redacted], Env:["KEY"], ClusterConfig:[redacted]}, ProxyURL:"http://[redacted]@proxy:3128"}`, fmt.Sprintf("%#v", c))
	require.Equal(t, "[redacted]", redactURL("http://me:"+mark+"@%zz"))
	require.Equal(t, "http://host/?[redacted]", redactURL("http://host/?token="+mark))
	require.Equal(t, "http://host#[redacted]", redactURL("http://host#"+mark))
	require.Equal(t, `{Command:"plugin", Env:["[redacted]" "KEY"]}`, Exec{Command: "plugin", Env: []string{mark, "KEY=" + mark}}.String())
}

func TestSecretsStayOutOfErrorsAndLogs(t *testing.T) {
	isolate(t)
	const mark = "marked-secret"
	encoded := base64.StdEncoding.EncodeToString([]byte(mark))
	dir := t.TempDir()
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelDebug}))
	failures := 0
	fail := func(err error) {
		t.Helper()
		require.Error(t, err)
		fmt.Fprintln(&said, err)
		fmt.Fprintf(&said, "%#v %+v\n", err, err)
		failures++
	}

	// Kubeconfigs that cannot be parsed or used.
	const form = "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n" +
		"clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'%s}}]\nusers: [{name: u, user: {%s}}]\n"
	for _, user := range []string{
		"token: *" + mark,
		"token: [" + mark + "]",
		"password: {" + mark + ": 1}",
		"token: '" + mark,
		`token: "` + mark + `\q"`,
		"token: &" + mark + " {*" + mark + ": 1}",
		"token: !!binary " + mark,
		"client-key-data: " + mark,
		"client-key-data: {" + mark + ": 1}",
		"as-groups: " + mark,
		"token: " + mark + ", username: a, password: " + mark,
		"password: " + mark,
		"client-key-data: " + encoded,
		`token: "` + mark + `\n"`,
		"client-certificate-data: " + encoded + ", client-certificate: f, client-key-data: " + encoded,
		"auth-provider: {name: gcp, config: {access-token: " + mark + "}}",
		"exec: {command: p, args: [" + mark + "], env: [{name: A, value: " + mark + "}]}",
		"exec: {command: p, apiVersion: client.authentication.k8s.io/v1, env: [{value: " + mark + "}], interactiveMode: Never}",
		"? {" + mark + ": x} : " + mark,
		"token: " + mark + ", token: {a: " + mark,
	} {
		_, err := ParseWith(fmt.Appendf(nil, form, "", user), LoadOptions{Logger: log})
		fail(err)
	}
	for _, cluster := range []string{
		", proxy-url: 'http://me:" + mark + "@'",
		", proxy-url: 'http://me:" + mark + "#@host'",
		", proxy-url: 'gopher://me:" + mark + "@host'",
	} {
		_, err := ParseWith(fmt.Appendf(nil, form, cluster, ""), LoadOptions{Logger: log})
		fail(err)
	}
	for _, server := range []string{"https://me:" + mark + "@host", "https://me:" + mark + "#@x", "https://host?token=" + mark} {
		_, err := LoadWith(LoadOptions{Server: server, Token: mark, Logger: log})
		fail(err)
	}

	for _, text := range []string{"yaml: line 2: cannot decode !!str `%s` as a !!int", "yaml: line 3: key '%s' twice", `yaml: line 4: "%s`} {
		fail(describeSyntax(fmt.Errorf(text, mark)))
	}

	// Configurations whose files or server are unusable.
	ca := newAuthority(t, "ca")
	s := ca.serveTLS(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, "https://elsewhere.invalid/?token="+mark, http.StatusFound)
		case "/cut":
			panic(http.ErrAbortHandler)
		default:
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	tokenPath := writeFile(t, filepath.Join(dir, "token"), []byte(mark))
	trusted := TLS{CAData: ca.pem}
	plugin := func(body string) *Exec {
		return &Exec{Command: script(t, body), Args: []string{"--key=" + mark}, Env: []string{"KEY=" + mark}, APIVersion: execV1, InteractiveMode: ExecNever}
	}
	for _, c := range []Config{
		{Host: "https://127.0.0.1:1", BearerToken: mark},
		{Host: s.URL, BearerToken: mark},
		{Host: s.URL + "/away", BearerToken: mark, TLS: trusted},
		{Host: s.URL + "/cut", Username: "me", Password: mark, TLS: trusted},
		{Host: s.URL, TLS: trusted, ProxyURL: "http://me:" + mark + "@127.0.0.1:1"},
		{Host: s.URL, TLS: trusted, ProxyURL: "socks5://me:" + mark + "@127.0.0.1:1"},
		{Host: s.URL, TLS: TLS{CertData: []byte(mark), KeyData: []byte(mark)}},
		{Host: s.URL, TLS: TLS{CAData: []byte(mark)}},
		{Host: s.URL, BearerTokenFile: writeFile(t, filepath.Join(dir, "two"), []byte(mark+"\n"+mark))},
		{Host: s.URL, Exec: plugin(`echo "$KEY $1" >&2; exit 1`)},
		{Host: s.URL, Exec: plugin(`echo "$KEY"`)},
		{Host: s.URL, Exec: plugin(`echo "{\"kind\":\"ExecCredential\",\"status\":{\"token\":[\"$KEY\"]}}"`)},
	} {
		c.Logger = log
		client, base, err := c.HTTPClient()
		if err == nil {
			_, _, err = fetchWith(t, client, base.String())
			client.CloseIdleConnections()
		}
		fail(err)
		fmt.Fprintf(&said, "%v %+v %#v\n", c, &c, c)
	}

	// A problem that is only logged: a refused token whose file then becomes invalid.
	c := &Config{Host: s.URL, TLS: trusted, BearerTokenFile: tokenPath, Logger: log}
	client, base, err := c.HTTPClient()
	require.NoError(t, err)
	writeFile(t, tokenPath, []byte(mark+"\n"+mark))
	status, _, err := fetchWith(t, client, base.String())
	require.NoError(t, err)
	require.Equal(t, 401, status)
	client.CloseIdleConnections()
	require.Contains(t, said.String(), "the last token stays in use")

	require.Greater(t, failures, 30)
	for _, form := range []string{mark, encoded, strings.Trim(fmt.Sprint([]byte(mark)), "[]")} {
		if at := strings.Index(said.String(), form); at >= 0 {
			t.Fatalf("a secret was shown:\n%s", said.String()[max(0, at-300):min(said.Len(), at+100)])
		}
	}
}

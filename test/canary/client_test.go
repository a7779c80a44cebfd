package canary

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/recording"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/scheme"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// credentials returns a config for each way to authenticate to a server.
func credentials(t *testing.T, said *ledger, server string) map[string]*config.Config {
	t.Helper()
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte(canaries["file token"]), 0o600))
	client := newIdentity(t, said)
	proxy := strings.Replace(server, "http://", "http://me:"+canaries["proxy password"]+"@", 1)
	return map[string]*config.Config{
		"token":      {Host: server, BearerToken: canaries["token"]},
		"token file": {Host: server, BearerTokenFile: token},
		"password":   {Host: server, Username: "me", Password: canaries["password"]},
		"plugin":     {Host: server, Exec: plugin(t, `printf '%s' "$ANSWER"`)},
		"proxy":      {Host: "http://apiserver.invalid", ProxyURL: proxy, BearerToken: canaries["token"]},
		"key":        {Host: server, BearerToken: canaries["token"], TLS: config.TLS{CertData: client.cert, KeyData: client.key}},
		"key file":   {Host: server, BearerToken: canaries["token"], TLS: config.TLS{CertFile: client.certFile, KeyFile: client.keyFile}},
		"tunnel":     {Host: "https://apiserver.invalid", ProxyURL: proxy, BearerToken: canaries["token"]},
		"wrapper":    {Host: server, WrapTransport: func(next http.RoundTripper) http.RoundTripper { return adding{next} }},
	}
}

// adding adds a token to requests, as the transports of client-go do.
type adding struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (a adding) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+canaries["token"])
	return a.next.RoundTrip(r)
}

// plugin returns an exec plugin with the given shell script. $ANSWER is a valid answer, $TOKEN its
// token.
func plugin(t *testing.T, body string) *config.Exec {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plugin")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o700))
	const version = "client.authentication.k8s.io/v1"
	answer, err := json.Marshal(map[string]any{"apiVersion": version, "kind": "ExecCredential", "status": map[string]string{"token": canaries["plugin token"]}})
	require.NoError(t, err)
	return &config.Exec{
		Command: path, Args: []string{"--key=" + canaries["environment"]}, APIVersion: version, InteractiveMode: config.ExecNever,
		Env: []string{"ANSWER=" + string(answer), "TOKEN=" + canaries["plugin token"], "KEY=" + canaries["environment"]},
	}
}

// If a server or a proxy repeats parts of a request, no output reveals the credentials.
func TestServersThatRepeatCredentials(t *testing.T) {
	said := newLedger()
	for name, parrot := range parrots {
		t.Run(name, func(t *testing.T) {
			var repeated atomic.Bool
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				text := heard(r)
				if text != "" {
					repeated.Store(true)
				}
				parrot(w, text)
			}))
			defer server.Close()
			for form, cfg := range credentials(t, said, server.URL) {
				cfg.Logger = said.logger()
				said.value("configuration", cfg)
				file := filepath.Join(t.TempDir(), "test.recording")
				recorder, err := recording.Create(file, recording.Options{IncludeSecrets: true})
				require.NoError(t, err)
				cfg.Recorder = recorder
				use(t, said, cfg, form)
				require.NoError(t, recorder.Close())
				said.recording(t, file)
			}
			require.True(t, repeated.Load(), "the server was not asked")
		})
	}
	said.requireSilence(t, "log", "log in JSON", "error", "status", "configuration", "recording")
}

// use calls every verb, and runs an informer until it has failed.
func use(t *testing.T, said *ledger, cfg *config.Config, about string) {
	t.Helper()
	client, err := rest.NewClient(cfg, scheme.New())
	require.NoError(t, err)
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	secrets, key := rest.ResourceFor[*corev1.Secret](client), object.Key{Namespace: "shop", Name: "a"}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"}, Data: map[string][]byte{"a": []byte(canaries["secret"])}}
	_, err = secrets.Get(ctx, key, metav1.GetOptions{})
	said.err("error", err)
	_, err = secrets.Create(ctx, secret, metav1.CreateOptions{})
	said.err("error", err)
	_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{})
	said.err("error", err)
	said.err("error", secrets.Delete(ctx, key, metav1.DeleteOptions{}))
	for _, err := range secrets.List(ctx, metav1.ListOptions{}).Items {
		said.err("error", err)
	}
	events, err := secrets.Watch(ctx, metav1.ListOptions{})
	said.err("error", err)
	if err == nil {
		for _, err := range events {
			said.err("error", err)
		}
	}
	log, err := secrets.Subresource("log").Stream(ctx, key, nil)
	if err == nil {
		_, err = io.ReadAll(log)
		log.Close()
	}
	said.err("error", err)
	_, err = client.Raw(ctx, "/version")
	said.err("error", err)
	_, err = client.Mapper().MappingForKind(ctx, object.GVK{Group: "example.com", Version: "v1", Kind: "Widget"})
	said.err("error", err)

	failed := make(chan struct{}, 1)
	i := sharedinformer.New[*corev1.Secret](secrets.Source(), sharedinformer.Options{Logger: cfg.Logger, OnError: func(_ context.Context, f *failure.Failure) failure.Verdict {
		said.err("failure", f)
		said.value("failure", *f)
		select {
		case failed <- struct{}{}:
		default:
		}
		return failure.Retry
	}})
	ended := make(chan error, 1)
	running, stop := context.WithCancel(ctx)
	go func() { ended <- i.Run(running) }()
	select {
	case <-failed:
	case <-ctx.Done():
		t.Errorf("the informer did not fail (%s)", about)
	}
	said.value("status", i.Status())
	waiting, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	said.err("status", i.WaitForSync(waiting))
	stop()
	said.err("error", <-ended)
	said.value("status", i.Status())
	said.say("error", fmt.Sprint(about, " done"))
}

// A failing plugin prints its token.
func TestPluginsThatPrintTheirToken(t *testing.T) {
	said := newLedger()
	for _, body := range []string{
		`echo "got $TOKEN for $KEY" >&2; exit 1`,
		`echo "$ANSWER" >&2; exit 3`,
		`echo "$TOKEN"`,
		`echo "$TOKEN"; exit 1`,
		`echo "{\"kind\":\"$TOKEN\",\"apiVersion\":\"$TOKEN\"}"`,
		`echo "{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1\",\"status\":{\"token\":[\"$TOKEN\"]}}"`,
		`echo "$1" >&2; printf '%s' "$ANSWER" | tr '"' "'"`,
		`echo "token: $TOKEN" >&2; printf '%s' "$ANSWER"`,
		`echo "$TOKEN" >&2; printf '%s\n' "$ANSWER" >&2; kill -9 $$`,
		`for i in 1 2 3 4 5 6 7 8; do echo "try $i with Bearer $TOKEN at https://me:$TOKEN@idp.example/?code=$KEY" >&2; done; exit 1`,
		`echo "refreshed, the new one is $TOKEN" >&2; exit 0`,
		`head -c 100000 /dev/zero | tr '\0' ' ' >&2; echo "$TOKEN" >&2; exit 1`,
		`printf '%s' "$ANSWER" | head -c 120; echo "$ANSWER" | base64 >&2; exit 1`,
	} {
		cfg := &config.Config{Host: "http://127.0.0.1:1", Exec: plugin(t, body), Logger: said.logger()}
		said.value("configuration", cfg)
		use(t, said, cfg, body)
	}
	said.requireSilence(t, "log", "error", "failure", "status")
}

// A secret in the wrong field of a kubeconfig is still a secret.
func TestKubeconfigsWithASecretInTheWrongPlace(t *testing.T) {
	said := newLedger()
	token := canaries["file token"]
	const form = "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n" +
		"clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'%s}}]\nusers: [{name: u, user: {%s}}]\n"
	failures := 0
	for _, text := range []string{
		fmt.Sprintf(form, "", "token: {"+token+": 1}"),
		fmt.Sprintf(form, "", "token: ["+token+"]"),
		fmt.Sprintf(form, "", "token: *"+token),
		fmt.Sprintf(form, "", "token: '"+token),
		fmt.Sprintf(form, "", "client-key-data: "+token),
		fmt.Sprintf(form, "", "client-certificate-data: "+token),
		fmt.Sprintf(form, "", "exec: "+token),
		fmt.Sprintf(form, "", "tokenFile: eyJhbGciOiJub25lIn0."+token+".x"),
		fmt.Sprintf(form, "", "as-groups: "+token),
		fmt.Sprintf(form, "", `token: "`+token+`\n"`),
		fmt.Sprintf(form, ", certificate-authority-data: "+token, ""),
		fmt.Sprintf(form, ", insecure-skip-tls-verify: "+token, ""),
		fmt.Sprintf(form, ", proxy-url: 'ftp://me:"+token+"@x'", ""),
		fmt.Sprintf(form, ", server: 'https://me:"+token+"@x'", ""),
		token,
		"users: " + token,
		"token: " + token + "\n\t" + token,
	} {
		cfg, err := config.ParseWith([]byte(text), config.LoadOptions{Logger: said.logger()})
		if err == nil {
			_, _, err = cfg.HTTPClient()
			said.value("configuration", cfg)
		}
		if err != nil {
			failures++
		}
		said.err("error", err)
	}
	require.Greater(t, failures, 13)
	said.requireSilence(t, "error")
}

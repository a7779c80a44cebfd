package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/debugtest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
)

// silentProcess accepts requests and does not answer. It signals each request.
func silentProcess(t *testing.T) (at string, asked <-chan struct{}) {
	t.Helper()
	questions := make(chan struct{}, 100)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		questions <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	return server.URL, questions
}

// If a process accepts requests and does not answer, the message says so.
func TestASilentProcessIsNamed(t *testing.T) {
	at, _ := silentProcess(t)
	r := invoke(t, "get", "--request-timeout=3500ms", "--attach="+at)
	require.Equal(t, exit.CodeUnavailable, r.Code)
	require.Regexp(t, `^! \S+  waiting       no answer from `+at+` for 3(\.\d)?s \(the request is sent\)\n`+
		`informer-debug: no answer from `+at+` for 3.5s \(the request is sent\)\n`+
		`  it accepts requests but does not respond: it may be stopped, .*--request-timeout sets how long to wait\n$`, r.ErrOut)

	file := filepath.Join(t.TempDir(), "bug.recording")
	for want, args := range map[string][]string{
		"--timeout of 1.1s expired: no answer from " + at + " for 1.1s":                      {"get", "pods", "--timeout=1100ms"},
		"--timeout of 1.2s expired: no answer from " + at + " for 1.2s":                      {"watch", "pods", "--timeout=1200ms"},
		"nothing was recorded within --duration of 1.3s: no answer from " + at + " for 1.3s": {"record", "-o", file, "--duration=1300ms"},
	} {
		r := invoke(t, append(args, "--attach="+at)...)
		require.NotEqual(t, exit.CodeOK, r.Code)
		require.Contains(t, r.ErrOut, want)
	}
	require.NoFileExists(t, file)

	r = invoke(t, "record", "pods", "-o", file, "--duration=1500ms", "--server="+at)
	require.Equal(t, exit.CodeUnavailable, r.Code, r.ErrOut)
	require.Contains(t, r.ErrOut, "nothing was recorded within --duration of 1.5s: ")
	require.NoFileExists(t, file)

	begun := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Millrace-Debug", "v1")
		w.Header().Set("Content-Type", "application/octet-stream")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer begun.Close()
	r = invoke(t, "record", "-o", file, "--duration=1400ms", "--attach="+begun.URL)
	require.Equal(t, exit.CodeUnavailable, r.Code, r.ErrOut)
	require.Contains(t, r.ErrOut, "nothing was recorded within --duration of 1.4s: ")
	require.NotContains(t, r.ErrOut, "no recording")
	require.NoFileExists(t, file)
}

// A command interrupted before the answer exits with a code that says so. A continuous command may
// be interrupted at any time.
func TestInterruptedBeforeTheAnswer(t *testing.T) {
	_, server := debugtest.Cluster(t, apiservertest.Options{})
	for code, verbs := range map[int][][]string{
		exit.CodeRuntime: {{"get"}, {"get", "pods"}, {"why", "pods/web-1", server}, {"shards"}, {"check", server}, {"doctor"}, {"wait", "pods", "--for=synced"}},
		exit.CodeOK:      {{"get", "pods", "-w"}, {"watch", "pods"}, {"serve"}},
	} {
		for _, args := range verbs {
			at, asked := silentProcess(t)
			ctx, interrupt := context.WithCancel(t.Context())
			go func() {
				<-asked
				interrupt()
			}()
			var stdout, stderr debugtest.Transcript
			r := finish(t, ctx, append(args, "--attach="+at), around(&stdout, &stderr))
			require.Equal(t, code, r.Code, "%s\n%s", args, r.ErrOut)
			require.Equal(t, code != exit.CodeOK, strings.Contains(r.ErrOut, "informer-debug: "+exit.ErrInterrupted.Error()), "%s\n%s", args, r.ErrOut)
			require.Empty(t, r.Out, args)
		}
	}
}

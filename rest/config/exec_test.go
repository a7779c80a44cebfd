package config

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/test/hostile"
)

// answer returns the output of a plugin.
func answer(version string, status execStatus) []byte {
	text, err := json.Marshal(execCredential{APIVersion: version, Kind: "ExecCredential", Status: &status})
	if err != nil {
		panic(err) // cannot fail: the fields are strings and a time
	}
	return text
}

// script writes a shell script and returns its path.
func script(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plugin")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o700))
	return path
}

// fakePlugin replaces the running of a program. Each run takes a second.
type fakePlugin struct {
	mu     sync.Mutex
	runs   int
	output func(run int) (pluginOutput, error)
}

func (f *fakePlugin) run(ctx context.Context, _ *Exec, _ string, _ bool) (pluginOutput, error) {
	f.mu.Lock()
	f.runs++
	run := f.runs
	f.mu.Unlock()
	select {
	case <-time.After(time.Second):
		return f.output(run)
	case <-ctx.Done():
		return pluginOutput{}, ctx.Err()
	}
}

func (f *fakePlugin) source(log io.Writer) *execSource {
	s := newExecSource(&Config{
		Host:   "https://x",
		Exec:   &Exec{Command: "fake", APIVersion: execV1, InteractiveMode: ExecNever},
		Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	s.run = f.run
	return s
}

func tokens(run int) (pluginOutput, error) {
	return pluginOutput{stdout: answer(execV1, execStatus{Token: fmt.Sprintf("token-%d", run)})}, nil
}

func TestExecAuthenticatesAndRefreshes(t *testing.T) {
	for _, version := range []string{execV1, execV1beta1} {
		t.Run(version, func(t *testing.T) {
			dir := t.TempDir()
			tokenPath := writeFile(t, filepath.Join(dir, "token"), []byte("first"))
			wanted := "Bearer first"
			ca := newAuthority(t, "ca")
			s := ca.serveTLS(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != wanted {
					w.WriteHeader(http.StatusUnauthorized)
				}
			})
			// The plugin logs its input and prints the token in the file.
			plugin := script(t, `echo "$KUBERNETES_EXEC_INFO" >>"$DIR/info"
[ "$1" = get-token ] || exit 9
printf '{"kind":"ExecCredential","apiVersion":"`+version+`","status":{"token":"%s"}}' "$(cat "$DIR/token")"`)
			c := &Config{
				Host: s.URL, ProxyURL: "", TLS: TLS{CAFile: writeFile(t, filepath.Join(dir, "ca.crt"), ca.pem)},
				Exec: &Exec{Command: plugin, Args: []string{"get-token"}, Env: []string{"DIR=" + dir}, APIVersion: version,
					ProvideClusterInfo: true, ClusterConfig: []byte(`{"audience":"x"}`), InteractiveMode: ExecNever},
			}
			client, base, err := c.HTTPClient()
			require.NoError(t, err)
			t.Cleanup(client.CloseIdleConnections)
			for range 3 {
				status, _, err := fetchWith(t, client, base.String())
				require.NoError(t, err)
				require.Equal(t, 200, status)
			}
			wanted = "Bearer second"
			writeFile(t, tokenPath, []byte("second"))
			status, _, err := fetchWith(t, client, base.String())
			require.NoError(t, err)
			require.Equal(t, 200, status, "a 401 must make the plugin run again")

			info, err := os.ReadFile(filepath.Join(dir, "info"))
			require.NoError(t, err)
			lines := strings.Split(strings.TrimSpace(string(info)), "\n")
			require.Len(t, lines, 2, "the credential must be kept while it is good")
			caText, err := json.Marshal(ca.pem)
			require.NoError(t, err)
			require.JSONEq(t, fmt.Sprintf(`{"kind":"ExecCredential","apiVersion":%q,"spec":{"interactive":false,"cluster":{
				"server":%q,"certificate-authority-data":%s,"disable-compression":true,"config":{"audience":"x"}}}}`, version, s.URL, caText), lines[0])
		})
	}
}

func TestExecClientCertificateRotates(t *testing.T) {
	ca := newAuthority(t, "ca")
	wanted := "alice"
	s := ca.serveTLS(t, func(w http.ResponseWriter, r *http.Request) {
		if len(r.TLS.PeerCertificates) == 0 || r.TLS.PeerCertificates[0].Subject.CommonName != wanted {
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	path := filepath.Join(t.TempDir(), "answer")
	put := func(name string) {
		cert, key := ca.issue(t, name, time.Time{})
		writeFile(t, path, answer(execV1, execStatus{CertData: string(cert), KeyData: string(key)}))
	}
	put("alice")
	c := &Config{Host: s.URL, TLS: TLS{CAData: ca.pem},
		Exec: &Exec{Command: "cat", Args: []string{path}, APIVersion: execV1, InteractiveMode: ExecNever}}
	client, base, err := c.HTTPClient()
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	for _, name := range []string{"alice", "bob"} {
		wanted = name
		put(name)
		status, _, err := fetchWith(t, client, base.String())
		require.NoError(t, err)
		require.Equal(t, 200, status, name)
	}
}

func TestExecSharesOneRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakePlugin{output: tokens}
		s := f.source(io.Discard)
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				cred, err := s.get(t.Context())
				if err != nil || cred.authorization != "Bearer token-1" {
					t.Errorf("got %v, %v", cred.authorization, err)
				}
			})
		}
		wg.Wait()
		require.Equal(t, 1, f.runs)

		old, err := s.get(t.Context())
		require.NoError(t, err)
		for range 50 {
			wg.Go(func() {
				cred, err := s.renew(t.Context(), old)
				if err != nil || cred.authorization != "Bearer token-2" {
					t.Errorf("got %v, %v", cred.authorization, err)
				}
			})
		}
		wg.Wait()
		require.Equal(t, 2, f.runs, "one refused credential is replaced once")

		time.Sleep(refusalInterval)
		cred, err := s.renew(t.Context(), old)
		require.NoError(t, err)
		require.Equal(t, "Bearer token-2", cred.authorization, "what was refused had been replaced already")
	})
}

func TestExecSharesFailureButNotCancellation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		f := &fakePlugin{output: func(int) (pluginOutput, error) { return pluginOutput{}, broken }}
		s := f.source(io.Discard)
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if _, err := s.get(t.Context()); !errors.Is(err, broken) {
					t.Errorf("got %v, want %v", err, broken)
				}
			})
		}
		wg.Wait()
		require.Equal(t, 1, f.runs, "who waited for a failed run must not run it again")
		_, err := s.get(t.Context())
		require.ErrorIs(t, err, broken)
		require.Equal(t, 2, f.runs, "a later request tries again")
	})
}

// Impatient callers, one after another, get the result of a plugin that is slower than
// each of them: the plugin is not restarted for each.
func TestExecContinuesForTheNextCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakePlugin{output: func(run int) (pluginOutput, error) {
			time.Sleep(9 * time.Second) // 10 s in total
			return tokens(run)
		}}
		s := f.source(io.Discard)
		for try := range 3 {
			progress := new(source.Progress)
			ctx, cancel := context.WithTimeout(source.WithProgress(t.Context(), progress), 3*time.Second)
			_, err := s.get(ctx)
			stuck, ok := errors.AsType[*source.StuckError](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, time.Duration(try+1)*3*time.Second, stuck.For)
			require.EqualError(t, err, fmt.Sprintf(`waiting for exec plugin "fake" for %ds: context deadline exceeded`, 3*(try+1)))
			require.Equal(t, `exec plugin "fake"`, progress.Waiting(nil).What)
			cancel()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		cred, err := s.get(ctx)
		require.NoError(t, err)
		require.Equal(t, "Bearer token-1", cred.authorization)
		require.Equal(t, 1, f.runs)
	})
}

// A plugin does not run without waiting callers, nor forever.
func TestExecRunsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		s := (&fakePlugin{}).source(io.Discard)
		s.run = func(ctx context.Context, _ *Exec, _ string, _ bool) (pluginOutput, error) {
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return pluginOutput{}, ctx.Err()
		}
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.get(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, <-ended, errAbandoned)
		require.Equal(t, time.Second+abandonedAfter, time.Since(start))

		start = time.Now()
		_, err = s.get(t.Context())
		require.ErrorContains(t, err, "it took longer than 5m0s")
		require.Equal(t, maxPluginTime, time.Since(start))
	})
}

func TestExecExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca := newAuthority(t, "ca")
		var log bytes.Buffer
		var status execStatus
		f := &fakePlugin{output: func(int) (pluginOutput, error) {
			return pluginOutput{stdout: answer(execV1, status), stderr: "deprecated"}, nil
		}}
		s := f.source(&log)
		runs := func() int {
			t.Helper()
			_, err := s.get(t.Context())
			require.NoError(t, err)
			return f.runs
		}
		expires := time.Now().Add(time.Hour)
		status = execStatus{Token: "a", Expiration: &expires}
		require.Equal(t, 1, runs())
		require.Contains(t, log.String(), "deprecated")
		time.Sleep(time.Until(expires) - 1)
		require.Equal(t, 1, runs())

		// The end of the certificate counts if it is before the timestamp.
		end := time.Now().Add(time.Minute).Truncate(time.Second)
		cert, key := ca.issue(t, "x", end)
		later := time.Now().Add(time.Hour)
		status = execStatus{CertData: string(cert), KeyData: string(key), Expiration: &later}
		time.Sleep(time.Nanosecond)
		require.Equal(t, 2, runs())
		time.Sleep(time.Until(end) - 1)
		require.Equal(t, 2, runs())
		status = execStatus{Token: "b"}
		time.Sleep(time.Nanosecond)
		require.Equal(t, 3, runs())
		time.Sleep(1000 * time.Hour)
		require.Equal(t, 3, runs(), "without a timestamp it is good for ever")

		require.NotContains(t, log.String(), "already expired")
		past := time.Now().Add(-time.Hour)
		status.Expiration = &past
		s.valid = false
		require.Equal(t, 4, runs())
		require.Contains(t, log.String(), "already expired")
	})
}

func TestExecSharesExpiredCredential(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		past := time.Now().Add(-time.Hour)
		f := &fakePlugin{output: func(int) (pluginOutput, error) {
			return pluginOutput{stdout: answer(execV1, execStatus{Token: "late", Expiration: &past})}, nil
		}}
		s := f.source(io.Discard)
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if cred, err := s.get(t.Context()); err != nil || cred.authorization != "Bearer late" {
					t.Errorf("got %v, %v", cred.authorization, err)
				}
			})
		}
		wg.Wait()
		require.Equal(t, 1, f.runs)
	})
}

func TestExecMayLeaveChildBehind(t *testing.T) {
	dir := t.TempDir()
	c := &Config{Host: "https://127.0.0.1:1", Exec: &Exec{
		Command: script(t, `(while [ -d "$DIR" ]; do sleep 0.1; done) & cat "$1"`),
		Args:    []string{writeFile(t, filepath.Join(dir, "answer"), answer(execV1, execStatus{Token: "t0ken"}))},
		Env:     []string{"DIR=" + dir}, APIVersion: execV1, InteractiveMode: ExecNever}}
	cred, err := newExecSource(c).get(t.Context())
	require.NoError(t, err)
	require.Equal(t, "Bearer t0ken", cred.authorization)
}

func TestExecRefusalsDoNotStormThePlugin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakePlugin{output: tokens}
		s := f.source(io.Discard)
		start := time.Now()
		for time.Since(start) < time.Minute {
			cred, err := s.get(t.Context())
			require.NoError(t, err)
			_, err = s.renew(t.Context(), cred)
			require.NoError(t, err)
			time.Sleep(10 * time.Millisecond)
		}
		require.LessOrEqual(t, f.runs, 1+int(time.Minute/refusalInterval))
		require.Greater(t, f.runs, 5)
	})
}

func TestExecSlowPluginIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		f := &fakePlugin{output: func(int) (pluginOutput, error) {
			time.Sleep(slowPlugin)
			return tokens(1)
		}}
		_, err := f.source(&log).get(t.Context())
		require.NoError(t, err)
		require.Contains(t, log.String(), "still running")
	})
}

func TestExecFailures(t *testing.T) {
	mode := func(m ExecInteractiveMode) func(*Exec) {
		return func(e *Exec) { e.InteractiveMode = m }
	}
	for name, tc := range map[string]struct {
		body   string
		change func(*Exec)
		want   []string
	}{
		"missing":         {"", func(e *Exec) { e.Command = "no-such-plugin-here" }, []string{`"no-such-plugin-here"`, "cannot be run", "install it", "brew install it"}},
		"exit status":     {"echo marked-secret-token >&2; echo why >&2; exit 3", nil, []string{"exit status 3", "it wrote: [redacted]\nwhy", "brew install it"}},
		"own token":       {`echo '{"status":{"token":"marked-secret-own"}}'; echo marked-secret-own >&2; exit 1`, nil, []string{"it wrote: [redacted]"}},
		"token on stderr": {`echo '{"kind":"ExecCredential","status":{"token":"marked-secret-other"}}' >&2; exit 1`, nil, []string{"it wrote: {"}},
		"long stderr":     {`i=0; while [ $i -lt 3000 ]; do echo "line $i" >&2; i=$((i+1)); done; exit 1`, nil, []string{"it wrote: ...", "line 2999"}},
		"nothing":         {"exit 0", nil, []string{"printed nothing"}},
		"bare token":      {"echo marked-secret-token", nil, []string{"not an ExecCredential"}},
		"garbled":         {`printf '{"kind": marked-secret'`, nil, []string{"not an ExecCredential"}},
		"alias":           {`echo '{"status": {"token": *marked-secret}}'`, nil, []string{"put it in quotes"}},
		"wrong version":   {`echo '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1beta1","status":{"token":"marked-secret"}}'`, nil, []string{"v1beta1", "make them match"}},
		"wrong kind":      {`echo '{"kind":"Pod","apiVersion":"v1"}'`, nil, []string{`kind "Pod"`}},
		"no status":       {`echo '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1"}'`, nil, []string{"no status"}},
		"empty status":    {`echo '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{}}'`, nil, []string{"neither a token nor a certificate"}},
		"key alone":       {`echo '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"clientKeyData":"marked-secret"}}'`, nil, []string{"without its certificate"}},
		"bad key":         {`echo '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"clientKeyData":"marked-secret","clientCertificateData":"x"}}'`, nil, []string{"its client certificate"}},
		"too much":        {"head -c 2000000 /dev/zero", nil, []string{"more than 1048576 bytes"}},
		"needs terminal":  {"exit 0", mode(ExecAlways), []string{"needs a terminal"}},
	} {
		t.Run(name, func(t *testing.T) {
			e := &Exec{Command: script(t, tc.body), Args: []string{"--secret", "marked-secret-token"}, APIVersion: execV1, InteractiveMode: ExecIfAvailable, InstallHint: "brew install it"}
			if tc.change != nil {
				tc.change(e)
			}
			var log bytes.Buffer
			c := &Config{Host: "https://127.0.0.1:1", Exec: e, Logger: slog.New(slog.NewTextHandler(&log, nil))}
			s := newExecSource(c)
			s.stdin = func() bool { return false }
			_, err := s.get(t.Context())
			require.Error(t, err)
			require.ErrorContains(t, err, fmt.Sprintf("exec plugin %q", e.Command))
			for _, want := range tc.want {
				require.ErrorContains(t, err, want)
			}
			require.NotContains(t, err.Error()+log.String(), "marked-secret")
			require.Less(t, len(err.Error()), shownPluginStderr+1024)
		})
	}
}

func TestExecIsKilledWhenNoCallerWaits(t *testing.T) {
	// The script leaves a child behind that holds its output open while the test's
	// directory exists, reports that it runs, and waits: only killing it and abandoning
	// the output ends the run.
	started := filepath.Join(t.TempDir(), "started")
	c := &Config{Host: "https://127.0.0.1:1", Exec: &Exec{
		Command: script(t, `(while [ -d "$(dirname "$STARTED")" ]; do sleep 0.1; done) & echo >"$STARTED"; wait`),
		Env:     []string{"STARTED=" + started}, APIVersion: execV1beta1}}
	s := newExecSource(c)
	s.stdin = func() bool { return false }
	s.abandoned = time.Millisecond
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("enough")
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		defer cancel(stop)
		for t.Context().Err() == nil {
			if _, err := os.Stat(started); err == nil {
				return
			}
			runtime.Gosched()
		}
	})
	_, err := s.get(ctx)
	require.ErrorIs(t, err, stop)
	s.mu.Lock()
	run := s.running
	s.mu.Unlock()
	if run != nil {
		<-run.done
		require.ErrorContains(t, run.err, errAbandoned.Error())
	}
}

func TestExecGivesWayToOwnCredentials(t *testing.T) {
	var got []string
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("Authorization"))
	}))
	t.Cleanup(s.Close)
	_, _, err := fetch(t, &Config{Host: s.URL, BearerToken: "mine", Exec: &Exec{Command: "false", APIVersion: execV1beta1}}, "/")
	require.NoError(t, err)
	require.Equal(t, []string{"Bearer mine"}, got)
}

func FuzzExecAnswer(f *testing.F) {
	f.Add(answer(execV1, execStatus{Token: "a"}))
	f.Add(answer(execV1, execStatus{CertData: "a", KeyData: "b", Expiration: new(time.Time)}))
	f.Add([]byte("token"))
	f.Add([]byte(`{"status":{"expirationTimestamp":"soon"}}`))
	budget := hostile.Budget{Memory: 4 << 20, MemoryPerByte: 1000}
	var kept hostile.Kept
	f.Fuzz(func(t *testing.T, stdout []byte) {
		kept.Nothing(t)
		budget.Within(t, len(stdout), func() { _, _ = parseExecAnswer(stdout, execV1) })
		status, err := parseExecAnswer(stdout, execV1)
		if err == nil && status.Token == "" && status.CertData == "" {
			t.Fatalf("%q was accepted without a credential", stdout)
		}
	})
}

// Standard error of a plugin is shown without known secrets, whatever surrounds them.
func FuzzPluginStderr(f *testing.F) {
	const secret = "Zq8-vXw2_kTr5yLm"
	f.Add("error: token ", " was refused\n")
	f.Add(`{"status":{"token":"`, `"}}`)
	f.Add("-----BEGIN PRIVATE KEY-----\n", "\n-----END PRIVATE KEY-----")
	f.Add("https://host/?code=", "&state=x")
	budget := hostile.Budget{Memory: 4 << 20, MemoryPerByte: 1000}
	var kept hostile.Kept
	f.Fuzz(func(t *testing.T, before, after string) {
		kept.Nothing(t)
		text := before + secret + after + "|" + base64.StdEncoding.EncodeToString([]byte(secret)) + before
		var shown string
		budget.Within(t, len(text), func() { shown = showStderr(text, []string{secret}) })
		require.NotContains(t, shown, secret)
		require.NotContains(t, shown, strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(secret)), "="))
		require.LessOrEqual(t, len(shown), shownPluginStderr+len("..."))
	})
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// A plugin runs in its own goroutine: a panic there would end the process, and after a
// Goexit, requests would wait forever for the run.
func TestALoggerMayPanicOrExitWhileAPluginRuns(t *testing.T) {
	for want, breaks := range map[string]func(){"panicked: oh": func() { panic("oh") }, "called runtime.Goexit": runtime.Goexit} {
		synctest.Test(t, func(t *testing.T) {
			f := &fakePlugin{output: func(run int) (pluginOutput, error) {
				time.Sleep(slowPlugin)
				out, err := tokens(run)
				if run == 1 {
					out.stderr = "be warned"
				}
				return out, err
			}}
			s := f.source(writerFunc(func([]byte) (int, error) { breaks(); return 0, nil }))
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			_, err := s.get(ctx)
			require.ErrorContains(t, err, `exec plugin "fake": the run, or Config.Logger, `+want)
			cred, err := s.get(ctx)
			require.NoError(t, err)
			require.Equal(t, "Bearer token-2", cred.authorization)
		})
	}
}

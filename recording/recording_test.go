package recording

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// roundTripper is a function that implements http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// part is a part of a body and the time before it.
type part struct {
	after time.Duration
	text  string
	err   error
}

// parts is a body that arrives in parts.
type parts struct{ left []part }

func (b *parts) Read(p []byte) (int, error) {
	if len(b.left) == 0 {
		return 0, io.EOF
	}
	next := b.left[0]
	b.left = b.left[1:]
	time.Sleep(next.after)
	return copy(p, next.text), next.err
}

func (b *parts) Close() error { return nil }

// serve responds with a body that arrives in parts.
func serve(status int, all ...part) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		return response(r, Answer{Status: status, ContentType: "application/json"}, &parts{all}), nil
	})
}

func get(t testing.TB, url string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	return req
}

// told returns the response as seen by a client, with times.
func told(t testing.TB, from http.RoundTripper, req *http.Request) (lines []string) {
	t.Helper()
	began := time.Now()
	say := func(text string) { lines = append(lines, time.Since(began).String()+" "+text) }
	resp, err := from.RoundTrip(req)
	if err != nil {
		say("no answer: " + err.Error())
		return lines
	}
	defer resp.Body.Close()
	say(resp.Status + " " + resp.Header.Get("Content-Type"))
	for p := make([]byte, 1<<20); ; {
		n, err := resp.Body.Read(p)
		if n > 0 {
			say(string(p[:n]))
		}
		if err != nil {
			say(err.Error())
			return lines
		}
	}
}

// recorded returns the file recorded while use runs.
func recorded(t testing.TB, opts Options, use func(r *Recorder)) *File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "test.recording")
	r, err := Create(path, opts)
	require.NoError(t, err)
	use(r)
	require.NoError(t, r.Close())
	return opened(t, path)
}

func opened(t testing.TB, path string) *File {
	t.Helper()
	f, err := Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

const (
	pods  = "https://example.com/api/v1/namespaces/shop/pods?limit=5"
	watch = "https://example.com/prefix/api/v1/pods?watch=true&resourceVersion=7&timeoutSeconds=9"
)

func TestReplayRepeatsTheRecording(t *testing.T) {
	for name, served := range map[string]http.RoundTripper{
		"in parts": serve(200, part{time.Second, "one", nil}, part{0, "two", nil}, part{time.Hour, "three", io.EOF}),
		"cut":      serve(200, part{time.Second, "one", io.ErrUnexpectedEOF}),
		"refused":  serve(410, part{0, "gone", nil}),
		"no answer": roundTripper(func(*http.Request) (*http.Response, error) {
			time.Sleep(3 * time.Second)
			return nil, errors.New("no way")
		}),
		"nothing":    serve(200),
		"large part": serve(200, part{0, strings.Repeat("0123456789", 20_000), nil}),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var was []string
				f := recorded(t, Options{}, func(r *Recorder) { was = told(t, r.RoundTripper(served, nil), get(t, pods)) })
				require.NoError(t, f.Damage)
				replay := f.Replay(ReplayOptions{})
				is := told(t, replay, get(t, pods))
				if name == "large part" { // it is written in several records
					require.Equal(t, was[1], "0s "+strings.ReplaceAll(strings.Join(is[1:len(is)-1], ""), "0s ", ""))
					was, is = was[:1], is[:1]
				}
				require.Equal(t, was, is)
				require.NoError(t, replay.Wait(t.Context()))
			})
		})
	}
}

// Only the parameters of lists and watches are written, nothing else that is sent.
func TestARequestIsWrittenWithoutCredentials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := recorded(t, Options{}, func(r *Recorder) {
			req := get(t, watch+"&access_token=hunter2")
			req.Header.Set("Authorization", "Bearer hunter2")
			req.Header.Set("Cookie", "hunter2")
			req.Header.Set("Accept", "application/json")
			told(t, r.RoundTripper(serve(200), nil), req)
		})
		require.Len(t, f.Requests, 1)
		q := f.Requests[0]
		require.Equal(t, "/api/v1/pods", q.Path)
		require.Equal(t, "resourceVersion=7&timeoutSeconds=9&watch=true", q.Query)
		require.Equal(t, "application/json", q.Accept)
		require.Equal(t, "https://example.com/prefix", q.Server)
		raw, err := os.ReadFile(f.Path)
		require.NoError(t, err)
		require.NotContains(t, string(raw), "hunter2")
	})
}

func TestOnlyListsAndWatchesAreRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := recorded(t, Options{}, func(r *Recorder) {
			tap := r.RoundTripper(serve(200, part{0, "hunter2", nil}), nil)
			for _, path := range []string{
				"/api/v1/namespaces/shop", "/api/v1/namespaces/shop/status", "/api/v1/namespaces/shop/pods/a", "/api/v1/namespaces/shop/pods/a/log",
				"/api/v1/nodes/a", "/version", "/api", "/api/v1", "/apis/apps/v1", "/openapi/v3", "/api/v1/watch/pods/x",
			} {
				told(t, tap, get(t, "https://example.com"+path))
			}
			post := get(t, "https://example.com/apis/authentication.k8s.io/v1/tokenreviews")
			post.Method = http.MethodPost
			told(t, tap, post)
		})
		require.Empty(t, f.Requests)
		require.Less(t, f.Size, int64(300))
	})
}

func TestSecretsAreLeftOut(t *testing.T) {
	for _, include := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := recorded(t, Options{IncludeSecrets: include}, func(r *Recorder) {
				told(t, r.RoundTripper(serve(200, part{time.Second, "hunter2", nil}), nil), get(t, "https://example.com/api/v1/secrets"))
			})
			require.Equal(t, !include, f.Requests[0].Withheld)
			require.EqualValues(t, 7, f.Requests[0].Bytes)
			require.Equal(t, time.Second, f.Requests[0].Ended)
			raw, err := os.ReadFile(f.Path)
			require.NoError(t, err)
			require.Equal(t, include, bytes.Contains(raw, []byte("hunter2")))
			_, err = f.Replay(ReplayOptions{}).RoundTrip(get(t, "https://example.com/api/v1/secrets"))
			require.Equal(t, include, err == nil, err)
		})
	}
}

// A truncated file is readable up to where a crash has cut it off, wherever that is.
func TestAFileThatIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := recorded(t, Options{}, func(r *Recorder) {
			for range 3 {
				told(t, r.RoundTripper(serve(200, part{time.Minute, "one", nil}), nil), get(t, pods))
			}
		})
		raw, err := os.ReadFile(f.Path)
		require.NoError(t, err)
		most := 0
		for n := range raw {
			f, err := newFile("f", bytes.NewReader(raw[:n]), int64(n))
			if err != nil {
				require.ErrorContains(t, err, "recording f: at byte ")
				continue
			}
			require.ErrorIs(t, f.Damage, ErrCutOff, n)
			require.GreaterOrEqual(t, len(f.Requests), most)
			most = len(f.Requests)
		}
		require.Equal(t, 3, most)
	})
}

func TestAFileThatIsChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := recorded(t, Options{}, func(r *Recorder) {
			told(t, r.RoundTripper(serve(200, part{time.Minute, "one", nil}), nil), get(t, pods))
		})
		raw, err := os.ReadFile(f.Path)
		require.NoError(t, err)
		for n := range raw {
			other := bytes.Clone(raw)
			other[n] ^= 4
			f, err := newFile("f", bytes.NewReader(other), int64(n))
			require.True(t, err != nil || f.Damage != nil, "byte %d", n)
		}
	})
}

// The file stays within MaxSize. The oldest requests are dropped as a whole, and
// counted.
func TestOldestRequestsAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const each, count = 100_000, 60
		noise := make([]byte, each)
		for i := range noise {
			noise[i] = byte(i * i >> 3 * 7919 >> 5)
		}
		f := recorded(t, Options{MaxSize: leastMaxSize}, func(r *Recorder) {
			for n := range count {
				for i := range noise {
					noise[i] += byte(n + i%13*i)
				}
				told(t, r.RoundTripper(serve(200, part{time.Minute, string(noise), nil}), nil), get(t, pods))
				info, err := os.Stat(r.path)
				require.NoError(t, err)
				require.LessOrEqual(t, info.Size(), int64(leastMaxSize))
			}
		})
		require.NoError(t, f.Damage)
		require.Positive(t, f.LeftOut.Requests)
		require.Equal(t, count, f.LeftOut.Requests+len(f.Requests))
		require.EqualValues(t, f.LeftOut.Requests*each, f.LeftOut.Bytes)
		for _, q := range f.Requests {
			require.EqualValues(t, each, q.Bytes)
			require.True(t, q.Whole)
		}
		info, err := os.Stat(f.Path)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	})
}

func TestARecordingIsNotOverwritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := recorded(t, Options{}, func(r *Recorder) { one(t, r) })
		r, err := Create(f.Path, Options{})
		require.NoError(t, err)
		require.NoError(t, r.Close())
		require.Len(t, opened(t, f.Path+".previous").Requests, 1)
		other := filepath.Join(t.TempDir(), "kubeconfig")
		require.NoError(t, os.WriteFile(other, []byte("apiVersion: v1, and so on"), 0o600))
		_, err = Create(other, Options{})
		require.ErrorContains(t, err, "not a recording")
	})
}

// A failing disk ends the recording with an error, and the client continues.
func TestADiskThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "test.recording")
		var log bytes.Buffer
		r, err := Create(path, Options{Logger: logTo(&log)})
		require.NoError(t, err)
		client := r.RoundTripper(serve(200, part{time.Second, "one", nil}), nil)
		told(t, client, get(t, pods))
		synctest.Wait()
		r.breakFile()
		for range 3 {
			require.Len(t, told(t, client, get(t, pods)), 3)
			time.Sleep(time.Minute)
		}
		err = r.Close()
		require.ErrorContains(t, err, "recording "+path+": ")
		require.Equal(t, err, r.Status().Err)
		require.Equal(t, 1, strings.Count(log.String(), "the recording has ended"), log.String())
		require.Len(t, told(t, client, get(t, pods)), 3)
		require.ErrorIs(t, opened(t, path).Damage, ErrCutOff)
	})
}

func TestRequestsThatWereNotRecordedAreNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := recorded(t, Options{}, func(r *Recorder) {
			tap := r.RoundTripper(serve(200), nil)
			told(t, tap, get(t, pods))
			told(t, tap, get(t, "https://example.com/apis/apps/v1/deployments?watch=1&resourceVersion=3"))
		})
		replay := f.Replay(ReplayOptions{})
		for url, want := range map[string]string{
			"https://x/api/v1/nodes?limit=5":                               "list nodes: it was not recorded; it has: deployments.apps; pods in namespace shop",
			"https://x/api/v1/nodes/a":                                     "GET /api/v1/nodes/a: recordings contain only lists and watches of collections",
			"https://x/apis/apps/v1/deployments?watch=1&resourceVersion=9": "watch deployments.apps from rv 9: it was not recorded; it has: next, watch deployments.apps from rv 3",
		} {
			_, err := replay.RoundTrip(get(t, url))
			require.EqualError(t, err, "recording "+f.Path+": "+want)
		}
		require.ErrorContains(t, replay.Wait(t.Context()), "no client has requested its contents: deployments.apps; pods in namespace shop; last request: list nodes")
		require.ErrorContains(t, f.Replay(ReplayOptions{}).Wait(t.Context()), "no client has requested anything")
	})
}

// Secrets are left out even if the client escapes the path.
func TestSecretsByAnEscapedPath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := recorded(t, Options{}, func(r *Recorder) {
			told(t, r.RoundTripper(serve(200, part{0, "hidden", nil}), nil), get(t, "https://example.com/api/v1/%73ecrets"))
		})
		require.Len(t, f.Requests, 1)
		require.True(t, f.Requests[0].Withheld)
		require.Equal(t, "/api/v1/secrets", f.Requests[0].Path)
		body, err := io.ReadAll(f.Body(f.Requests[0]))
		require.NoError(t, err)
		require.NotContains(t, string(body), "hidden")
	})
}

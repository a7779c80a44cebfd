package debug_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/recording"
)

type answering string

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(string(a))), Request: r}, nil
}

// receive makes a recorder receive a list, and waits until it is in the file.
func receive(t *testing.T, r *recording.Recorder, list string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://server/api/v1/pods", nil)
	require.NoError(t, err)
	resp, err := r.RoundTripper(answering(list), nil).RoundTrip(req)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	time.Sleep(2 * time.Second)
}

func recorder(t *testing.T, opts recording.Options) *recording.Recorder {
	t.Helper()
	r, err := recording.Create(filepath.Join(t.TempDir(), "a.recording"), opts)
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.Close() }) // does nothing if the test has closed it
	return r
}

// The recording is served from its beginning and then as it grows.
func TestTheRecordingIsHandedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := recorder(t, recording.Options{})
		receive(t, r, `{"kind":"PodList","before":1}`)
		client := debug.New(debug.Options{Recording: r, Contents: true}).Client()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		from, err := client.Recording(ctx)
		require.NoError(t, err)
		path, saved := filepath.Join(t.TempDir(), "b.recording"), make(chan error)
		go func() {
			_, err := recording.Save(path, from, recording.Options{})
			saved <- err
		}()
		receive(t, r, `{"kind":"PodList","then":1}`)
		cancel()
		require.Error(t, <-saved, "it did not end by itself")
		require.NoError(t, from.Close())
		file, err := recording.Open(path)
		require.NoError(t, err)
		require.NoError(t, file.Damage)
		require.Len(t, file.Requests, 2)
		body, err := io.ReadAll(file.Body(file.Requests[1]))
		require.NoError(t, err)
		require.Equal(t, `{"kind":"PodList","then":1}`, string(body))
		require.NoError(t, file.Close())

		from, err = client.Recording(t.Context())
		require.NoError(t, err)
		require.NoError(t, r.Close())
		_, err = io.ReadAll(from)
		require.NoError(t, err, "it ends with the recording")
	})
}

// The recording is served only if the program allows it, and never with Secrets.
func TestARecordingThatIsNotShown(t *testing.T) {
	harmless, whole := recorder(t, recording.Options{}), recorder(t, recording.Options{IncludeSecrets: true})
	for want, opts := range map[string]debug.Options{
		"is not recording":         {Contents: true},
		"includes object contents": {Recording: harmless},
		"contains Secrets":         {Recording: whole, Contents: true},
	} {
		_, err := debug.New(opts).Client().Recording(t.Context())
		require.ErrorContains(t, err, want)
		w := ask(debug.New(opts), "recording")
		require.Equal(t, http.StatusNotFound, w.Code)
		require.NotContains(t, w.Body.String(), "millrace recording")
	}
}

// A client that does not read the recording is disconnected, blocks nothing, and
// occupies one place for streams until then.
func TestAViewerOfTheRecordingThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := recorder(t, recording.Options{})
		receive(t, r, `{"kind":"PodList"}`)
		process := debug.New(debug.Options{Recording: r, Contents: true})
		began, done := time.Now(), make(chan time.Duration, 8)
		for range cap(done) {
			go func() {
				w := &stuck{ResponseWriter: httptest.NewRecorder()}
				process.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, debug.Path+"v1/recording", nil))
				done <- time.Since(began)
			}()
		}
		synctest.Wait()
		for _, path := range []string{"recording", "events"} {
			require.Equal(t, http.StatusServiceUnavailable, ask(process, path).Code)
		}
		receive(t, r, `{"kind":"PodList"}`)
		require.Equal(t, 2, r.Status().Requests)
		for range cap(done) {
			require.Equal(t, 10*time.Second, <-done)
		}
		require.NoError(t, r.Close())
	})
}

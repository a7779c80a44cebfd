package config

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/recording"
)

// slowly is a reader that returns a text in parts of n bytes.
type slowly struct {
	text string
	n    int
}

func (s *slowly) Read(p []byte) (int, error) {
	n := copy(p, s.text[:min(s.n, len(s.text))])
	s.text = s.text[n:]
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (s *slowly) Close() error { return nil }

type repeater func(*http.Request) (*http.Response, error)

func (f repeater) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A credential that a response echoes is not recorded, however reads split it. The rest
// is recorded in place.
func TestBlankAcrossReads(t *testing.T) {
	const token = "tok-Zx81q7WvMeyK3nBd9Lc"
	const before, after = "{\"kind\":\"Pod\",\"a\":\"you said tok or tok-Zx: ", "\"}\ntok-"
	c := &Config{Host: "http://h", BearerToken: token}
	for n := 1; n < 2*len(token); n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "test.recording")
				recorder, err := recording.Create(path, recording.Options{})
				require.NoError(t, err)
				body := before + token + after
				client := recorder.RoundTripper(repeater(func(r *http.Request) (*http.Response, error) {
					return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"a/" + token}}, Body: &slowly{body, n}}, nil
				}), c.blank)
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://h/api/v1/pods", nil)
				require.NoError(t, err)
				resp, err := client.RoundTrip(req)
				require.NoError(t, err)
				got, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.Equal(t, body, string(got), "the client gets what came")
				require.NoError(t, recorder.Close())
				file, err := recording.Open(path)
				require.NoError(t, err)
				defer file.Close()
				kept, err := io.ReadAll(file.Body(file.Requests[0]))
				require.NoError(t, err)
				require.Equal(t, before+strings.Repeat("x", len(token))+after, string(kept))
				require.Equal(t, "a/"+strings.Repeat("x", len(token)), file.Requests[0].Answer.ContentType)
			})
		})
	}
}

// A token from a file is recognized even in a response without its request.
func TestAnAnswerWithoutItsRequest(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("tok-Zx81q7WvMeyK3nBd9Lc"), 0o600))
	c := &Config{Host: "http://h", BearerTokenFile: file, WrapTransport: func(http.RoundTripper) http.RoundTripper {
		return repeater(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 500, Header: http.Header{}}, nil
		})
	}}
	client, _, err := c.HTTPClient()
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://h/api/v1/pods", nil)
	require.NoError(t, err)
	resp, err := client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, "you sent Bearer [redacted]", c.Conceal("you sent Bearer tok-Zx81q7WvMeyK3nBd9Lc", resp.Request))
}

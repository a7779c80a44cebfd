package recording

import (
	"bytes"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// A recorder writes no more requests than a file may have.
func TestMoreRequestsThanAFileMayHave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const more = 10
		f := recorded(t, Options{}, func(r *Recorder) {
			q, ok := read(get(t, pods))
			require.True(t, ok)
			for n := range maxRequests + more {
				id, ok := r.begin(&q)
				require.True(t, ok)
				r.take(event{record: record{kind: kindEnd, request: id, payload: encode(ending{Error: "no"})}})
				if n%10_000 == 0 {
					synctest.Wait()
				}
			}
		})
		require.NoError(t, f.Damage)
		require.Equal(t, maxRequests+more, len(f.Requests)+f.LeftOut.Requests)
	})
}

// So many are played in the order in which they were sent, in time that grows as their number
// does: to look at all for each would take half an hour.
func TestAsManyRequestsArePlayed(t *testing.T) {
	s := &stream{of: map[string][]int{}, furthest: -1}
	request := func(n int) *Request {
		return &Request{Server: "http://h", Path: "/api/v1/pods", Query: "watch=true&resourceVersion=" + strconv.Itoa(n/2)}
	}
	for n := range maxRequests {
		s.add(request(n))
	}
	for n := maxRequests - 2; n >= 0; n -= 2 { // the last ones first
		for _, at := range []int{n, n + 1} {
			require.Equal(t, at, s.find(request(n)))
			s.use(at)
		}
		require.Equal(t, -1, s.find(request(n)))
	}
	require.Equal(t, -1, s.find(&Request{}), "there is no list")
	s.add(&Request{Query: "limit=500"})
	require.Equal(t, maxRequests, s.find(&Request{}))
}

// A recording that ends because the disk is behind is not one that was closed.
func TestARecordingThatIsBehindIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := Create(filepath.Join(t.TempDir(), "test.recording"), Options{})
		require.NoError(t, err)
		one(t, r)
		synctest.Wait() // until that is written, which sets bytes to 0
		r.mu.Lock()
		r.bytes = maxWaiting
		r.mu.Unlock()
		one(t, r)
		require.ErrorIs(t, r.Close(), ErrBehind)
		f := opened(t, r.path)
		require.ErrorIs(t, f.Damage, ErrCutOff)
		require.NotEmpty(t, f.Requests)
	})
}

// What a watch under way receives is kept where others can go that have ended.
func TestAWatchUnderWayStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		noise := make([]byte, 100_000)
		f := recorded(t, Options{MaxSize: leastMaxSize}, func(r *Recorder) {
			events := make(chan part)
			body := roundTripper(func(req *http.Request) (*http.Response, error) {
				return response(req, Answer{Status: 200}, io.NopCloser(readerFunc(func(p []byte) (int, error) {
					next := <-events
					return copy(p, next.text), next.err
				}))), nil
			})
			watched := make(chan []string)
			go func() { watched <- told(t, r.RoundTripper(body, nil), get(t, watch)) }()
			events <- part{text: "first"}
			source := rand.NewChaCha8([32]byte{})
			for range 40 {
				_, _ = source.Read(noise)
				told(t, r.RoundTripper(serve(200, part{0, string(noise), nil}), nil), get(t, pods))
				synctest.Wait()
			}
			events <- part{text: "last", err: io.EOF}
			require.Len(t, <-watched, 4)
		})
		require.Positive(t, f.LeftOut.Requests)
		body, err := io.ReadAll(f.Body(f.Requests[0]))
		require.NoError(t, err)
		require.True(t, f.Requests[0].Watch())
		require.Equal(t, "firstlast", string(body))
	})
}

// One that alone has more than the file may have goes, too.
func TestAWatchUnderWayThatIsTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var status Status
		f := recorded(t, Options{MaxSize: leastMaxSize, Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(r *Recorder) {
			q, ok := read(get(t, watch))
			require.True(t, ok)
			id, ok := r.begin(&q)
			require.True(t, ok)
			r.take(event{record: record{kind: kindAnswer, request: id, payload: encode(Answer{Status: 200})}})
			source := rand.NewChaCha8([32]byte{})
			for range 3 * leastMaxSize / maxPayload {
				noise := make([]byte, maxPayload)
				_, _ = source.Read(noise)
				r.take(event{record: record{kind: kindChunk, request: id, payload: noise}})
				synctest.Wait()
				info, err := os.Stat(r.path)
				require.NoError(t, err)
				require.LessOrEqual(t, info.Size(), int64(leastMaxSize))
			}
			require.NoError(t, r.Close())
			status = r.Status()
		})
		require.Empty(t, f.Requests)
		require.Equal(t, LeftOut{Requests: 1, Bytes: 3 * leastMaxSize}, f.LeftOut)
		require.Equal(t, 1, status.Requests)
		require.EqualValues(t, 3*leastMaxSize, status.Bytes, "what is left out is a part of it")
		require.Equal(t, 1, strings.Count(log.String(), "the recording is full"), log.String())
		require.ErrorContains(t, f.Replay(ReplayOptions{}).Wait(t.Context()), "all 1 requests were left out, since more came than MaxSize")
	})
}

// A request that no record can hold is left out, and counted.
func TestARequestThatIsTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var status Status
		f := recorded(t, Options{}, func(r *Recorder) {
			tap := r.RoundTripper(serve(200, part{0, "one", nil}), nil)
			require.Len(t, told(t, tap, get(t, pods+"&labelSelector="+strings.Repeat("a", maxPayload))), 3)
			told(t, tap, get(t, pods))
			synctest.Wait()
			status = r.Status()
		})
		require.NoError(t, f.Damage)
		require.Len(t, f.Requests, 1)
		require.Equal(t, LeftOut{Requests: 1, Bytes: 3}, f.LeftOut)
		require.Equal(t, f.LeftOut, status.LeftOut)
		require.Equal(t, 2, status.Requests)
		require.EqualValues(t, 6, status.Bytes)
	})
}

package recording

import (
	"bytes"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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

// The maximum number of requests is played in order, in linear time: a search through
// all of them for each would take half an hour.
func TestAsManyRequestsArePlayed(t *testing.T) {
	s := &stream{of: map[string][]int{}, furthest: -1}
	request := func(n int) *Request {
		return &Request{Server: "http://h", Path: "/api/v1/pods", Query: "watch=true&resourceVersion=" + strconv.Itoa(n/2)}
	}
	for n := range maxRequests {
		s.add(request(n))
	}
	for n := maxRequests - 2; n >= 0; n -= 2 { // in reverse order
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

// A recording that ends because the disk is too slow does not count as closed.
func TestRecordingIsCutOffIfTheDiskIsTooSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := Create(filepath.Join(t.TempDir(), "test.recording"), Options{})
		require.NoError(t, err)
		one(t, r)
		synctest.Wait() // until it is written, which sets bytes to 0
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

// A watch in progress is kept as long as finished requests can be dropped instead.
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

// A watch that exceeds the file on its own is dropped too.
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
		require.ErrorContains(t, f.Replay(ReplayOptions{}).Wait(t.Context()), "all 1 requests were dropped because of MaxSize")
	})
}

// A request too long for a record is left out and counted.
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

// A healthy informer lists once and then watches. With Relist, it is forced to list
// again before its list is dropped.
func TestDroppedListIsRequestedAgain(t *testing.T) {
	const list = "https://example.com/api/v1/pods?limit=500"
	for _, relist := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			noise := make([]byte, 100_000)
			source := rand.NewChaCha8([32]byte{})
			var expired []int
			f := recorded(t, Options{MaxSize: leastMaxSize, Relist: relist}, func(r *Recorder) {
				ask := func(url string, next http.RoundTripper) (status string, sent bool) {
					said := told(t, r.RoundTripper(roundTripper(func(req *http.Request) (*http.Response, error) {
						sent = true
						return next.RoundTrip(req)
					}), nil), get(t, url))
					synctest.Wait()
					return said[0], sent
				}
				lists := serve(200, part{0, `{"kind":"PodList"}`, nil})
				ask(list, lists)
				for n := range 60 {
					_, _ = source.Read(noise)
					noise[0] = 'x' // otherwise it might be taken for JSON
					status, sent := ask("https://example.com/api/v1/pods?watch=true&resourceVersion="+strconv.Itoa(n), serve(200, part{time.Minute, string(noise), nil}))
					if sent {
						continue
					}
					require.Equal(t, "0s 410 Gone application/json", status)
					expired = append(expired, n)
					ask(list, lists)
				}
			})
			require.Positive(t, f.LeftOut.Requests)
			_, err := f.Replay(ReplayOptions{Speed: math.Inf(1)}).RoundTrip(get(t, list))
			if !relist {
				require.Empty(t, expired)
				require.ErrorContains(t, err, "an informer can be replayed from its first remaining list")
				return
			}
			require.NoError(t, err)
			require.Greater(t, len(expired), 2)
			require.Greater(t, expired[1], expired[0]+1, "a new list stays for a while")
			for n, q := range f.Requests {
				if q.Answer.Status == http.StatusGone {
					require.False(t, f.Requests[n+1].Watch(), "it is recorded like others, and played with them")
				}
			}
		})
	}
}

// If the file is too small for a list, or the client does not list, it is not forced
// again and again.
func TestClientIsRarelyAskedToList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := Create(filepath.Join(t.TempDir(), "test.recording"), Options{Relist: true})
		require.NoError(t, err)
		defer r.Close()
		q, ok := read(get(t, watch))
		require.True(t, ok)
		require.False(t, r.expires(&q))
		mine := []client{{q.about, q.Informer}}
		r.lost(mine)
		require.True(t, r.expires(&q))
		require.False(t, r.expires(&q))
		r.lost(mine)
		require.False(t, r.expires(&q))
		time.Sleep(relistEvery)
		require.True(t, r.expires(&q))

		list, ok := read(get(t, "https://example.com/prefix/api/v1/pods"))
		require.True(t, ok)
		r.lost(mine)
		_, ok = r.begin(&list)
		require.True(t, ok)
		time.Sleep(relistEvery)
		require.False(t, r.expires(&q), "it has listed by itself")

		begins, ok := read(get(t, "https://example.com/prefix/api/v1/pods?watch=true"))
		require.True(t, ok)
		r.lost([]client{{begins.about, begins.Informer}})
		require.False(t, r.expires(&begins), "a watch without a version follows no list")

		secrets, ok := read(get(t, "https://example.com/api/v1/secrets?watch=true&resourceVersion=7"))
		require.True(t, ok)
		secrets.Withheld = true
		r.lost([]client{{secrets.about, secrets.Informer}})
		require.False(t, r.expires(&secrets), "its list is left out in any case")
	})
}

// A watch that exceeds the file does not displace the others, which would not help.
func TestBusyWatchIsDroppedWithoutTheOthers(t *testing.T) {
	for _, order := range [][]string{{"nodes", "pods"}, {"pods", "nodes"}} {
		synctest.Test(t, func(t *testing.T) {
			f := recorded(t, Options{MaxSize: leastMaxSize}, func(r *Recorder) {
				told(t, r.RoundTripper(serve(200, part{0, "list", nil}), nil), get(t, "https://example.com/api/v1/nodes"))
				ids := map[string]uint64{}
				for _, what := range order {
					q, ok := read(get(t, "https://example.com/api/v1/"+what+"?watch=true&resourceVersion=7"))
					require.True(t, ok)
					ids[what], ok = r.begin(&q)
					require.True(t, ok)
					r.take(event{record: record{kind: kindAnswer, request: ids[what], payload: encode(Answer{Status: 200})}})
				}
				r.take(event{record: record{kind: kindChunk, request: ids["nodes"], payload: []byte("quiet")}})
				source := rand.NewChaCha8([32]byte{})
				for range 3 * leastMaxSize / maxPayload {
					noise := make([]byte, maxPayload)
					_, _ = source.Read(noise)
					r.take(event{record: record{kind: kindChunk, request: ids["pods"], payload: noise}})
					synctest.Wait()
				}
			})
			require.NoError(t, f.Damage)
			require.Equal(t, LeftOut{Requests: 1, Bytes: 3 * leastMaxSize}, f.LeftOut)
			require.Len(t, f.Requests, 2)
			for n, want := range []string{"list", "quiet"} {
				require.Equal(t, "nodes", f.Requests[n].Resource().Resource)
				body, err := io.ReadAll(f.Body(f.Requests[n]))
				require.NoError(t, err)
				require.Equal(t, want, string(body))
			}
		})
	}
}

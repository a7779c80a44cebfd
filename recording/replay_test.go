package recording

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/internal/jitter"
)

// Two clusters in one recording are distinguished.
func TestTwoServersInOneRecording(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := recorded(t, Options{}, func(r *Recorder) {
			for _, name := range []string{"a", "b"} {
				told(t, r.RoundTripper(serve(200, part{0, name, nil}), nil), get(t, "https://"+name+"/api/v1/pods"))
			}
		})
		for asked, want := range map[string]string{"a": "0s a", "b": "1ns b", "elsewhere": "0s a"} { // the second came after the first
			require.Equal(t, want, told(t, f.Replay(ReplayOptions{}), get(t, "https://"+asked+"/api/v1/pods"))[1])
		}
	})
}

// Two informers with the same scope are distinguished, and each gets the responses of
// one of them. A replay of only one of them does not complain that the other is
// missing.
func TestTwoInformersOfOneScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := func(r *jitter.Recall) *http.Request { return of(get(t, pods), r) }
		f := recorded(t, Options{}, func(r *Recorder) {
			for _, body := range []string{"nobody's", "a", "b"} {
				var one *jitter.Recall
				if body != "nobody's" {
					one = new(jitter.Recall)
				}
				told(t, r.RoundTripper(serve(200, part{0, body, nil}), nil), of(one))
				time.Sleep(time.Second)
				told(t, r.RoundTripper(serve(200, part{0, body + " again", nil}), nil), of(one))
			}
		})
		require.NotEqual(t, f.Requests[2].Informer, f.Requests[4].Informer)
		fast := ReplayOptions{Speed: math.Inf(1)}
		both, a, b := f.Replay(fast), new(jitter.Recall), new(jitter.Recall)
		for _, want := range []string{"a", "a again"} {
			require.Equal(t, "0s "+want, told(t, both, of(a))[1])
		}
		for _, want := range []string{"b", "b again"} {
			require.Equal(t, "0s "+want, told(t, both, of(b))[1])
		}
		require.Equal(t, "0s nobody's", told(t, both, of(nil))[1])
		ended := func(r *Replay, of *http.Request) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			told(t, r, of.WithContext(jitter.WithRecall(ctx, jitter.RecallOf(of.Context()))))
		}
		one := f.Replay(fast)
		told(t, one, of(a))
		told(t, one, of(a))
		ended(one, of(a))
		require.NoError(t, one.Wait(t.Context()))

		last := f.Replay(ReplayOptions{Speed: math.Inf(1), Only: func(q *Request) bool { return q == f.Requests[5] }})
		require.Equal(t, "0s b again", told(t, last, of(a))[1])
		ended(last, of(a))
		require.NoError(t, last.Wait(t.Context()))
	})
}

// of marks a request as an informer's.
func of(req *http.Request, r *jitter.Recall) *http.Request {
	return req.WithContext(jitter.WithRecall(req.Context(), r))
}

// follow is the URL of a watch that continues on pods.
const follow = "https://example.com/api/v1/namespaces/shop/pods?watch=true&resourceVersion=7"

// twoInformers is a recording of two informers that list at once and receive more a
// minute later.
func twoInformers(t *testing.T) *File {
	return recorded(t, Options{}, func(r *Recorder) {
		var both sync.WaitGroup
		for _, who := range []string{"a", "b"} {
			both.Go(func() {
				one := new(jitter.Recall)
				told(t, r.RoundTripper(serve(200, part{0, who, nil}), nil), of(get(t, pods), one))
				told(t, r.RoundTripper(serve(200, part{time.Minute, who + " later", nil}), nil), of(get(t, follow), one))
			})
			time.Sleep(time.Millisecond)
		}
		both.Wait()
	})
}

// An additional informer gets the responses of the first and delays no one.
func TestAnInformerMoreThanWereRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := twoInformers(t)
		replay, began := f.Replay(ReplayOptions{}), time.Now()
		play := func(want, later string) {
			one := new(jitter.Recall)
			assert.Contains(t, strings.Join(told(t, replay, of(get(t, pods), one)), "\n"), "0s "+want+"\n")
			assert.Contains(t, strings.Join(told(t, replay, of(get(t, follow), one)), "\n"), later+" "+want+" later\n")
			assert.WithinDuration(t, began.Add(time.Minute), time.Now(), time.Second)
		}
		var all sync.WaitGroup
		for _, want := range []string{"a", "b"} {
			all.Go(func() { play(want, "1m0s") })
			time.Sleep(time.Millisecond)
		}
		time.Sleep(40*time.Second - 2*time.Millisecond)
		all.Go(func() { play("a", "20s") })
		all.Wait()
		require.NoError(t, replay.Wait(t.Context()))
	})
}

// A client without a share gets the responses to one that had a share, but only if there are no better ones.
func TestAClientWithoutAShare(t *testing.T) {
	const share = "&shardSelector=shardRange%28object.metadata.uid%2C0x0%2C0x8%29"
	synctest.Test(t, func(t *testing.T) {
		f := recorded(t, Options{}, func(r *Recorder) {
			for _, each := range [][2]string{{pods + share, "list"}, {follow + share, "share"}, {follow, "all"}} {
				told(t, r.RoundTripper(serve(200, part{0, each[1], nil}), nil), get(t, each[0]))
			}
		})
		replay := f.Replay(ReplayOptions{Speed: math.Inf(1)})
		require.Equal(t, "0s list", told(t, replay, get(t, pods))[1])
		for _, want := range []string{"all", "share"} {
			require.Equal(t, "0s "+want, told(t, replay, get(t, follow))[1])
		}

		replay = f.Replay(ReplayOptions{Speed: math.Inf(1)})
		require.Equal(t, "0s share", told(t, replay, get(t, follow+share))[1])
		require.ErrorContains(t, replay.fails(t, follow+share), "has been replayed; it has: next, watch pods in namespace shop from rv 7")
		require.Equal(t, "watch pods in namespace shop with a shardSelector from rv 7", f.Requests[1].String())
	})
}

// A plain list takes no response from an informer. One list more than recorded fails,
// since its wait would not end.
func TestAListThatNoInformerMakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		replay := twoInformers(t).Replay(ReplayOptions{Speed: math.Inf(1)})
		for _, want := range []string{"a", "b"} {
			require.Equal(t, "0s "+want, told(t, replay, get(t, pods))[1])
		}
		one := new(jitter.Recall)
		require.Equal(t, "0s a", told(t, replay, of(get(t, pods), one))[1])
		require.Equal(t, "0s a later", told(t, replay, of(get(t, follow), one))[1])
		require.ErrorContains(t, replay.fails(t, pods), "has been replayed; it has: next, watch pods in namespace shop from rv 7")
		for _, want := range []string{"a later", "b later"} {
			require.Equal(t, "0s "+want, told(t, replay, get(t, follow))[1])
		}
		require.ErrorContains(t, replay.fails(t, pods), "every recorded response has been replayed")
		require.ErrorContains(t, replay.Wait(expired(t)), "deadline", "the informer has not come for more")
	})
}

// An unidentified client gets all responses, even those to informers.
func TestUnidentifiedClientGetsAllResponses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := recorded(t, Options{}, func(r *Recorder) {
			for _, one := range []*jitter.Recall{nil, new(jitter.Recall)} {
				told(t, r.RoundTripper(serve(200, part{0, "one", nil}), nil), of(get(t, pods), one))
				if one != nil {
					told(t, r.RoundTripper(serve(200, part{0, "more", nil}), nil), of(get(t, follow), one))
				}
			}
		})
		for _, urls := range [][]string{{follow}, {pods, follow}, {pods, pods, follow}} {
			replay := f.Replay(ReplayOptions{Speed: math.Inf(1)})
			for _, url := range urls {
				require.NotContains(t, told(t, replay, get(t, url))[0], "no answer")
			}
			told(t, replay, get(t, follow).WithContext(expired(t))) // it asks for more
			require.NoError(t, replay.Wait(expired(t)), urls)
		}
	})
}

// expired returns a context that is done when nothing else happens.
func expired(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	t.Cleanup(cancel)
	return ctx
}

// The replay has the requested speed, as far as a Duration permits.
func TestSpeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := recorded(t, Options{}, func(r *Recorder) {
			told(t, r.RoundTripper(serve(200, part{10 * time.Second, "one", nil}), nil), get(t, pods))
		})
		for speed, want := range map[float64]time.Duration{
			0: 10 * time.Second, -1: 10 * time.Second, math.NaN(): 10 * time.Second, math.Inf(-1): 10 * time.Second,
			0.5: 20 * time.Second, 10: time.Second, 1e300: 0, math.Inf(1): 0, 1e-9: time.Hour, 1e-300: time.Hour,
		} {
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			replay := f.Replay(ReplayOptions{Speed: speed})
			told(t, replay, get(t, pods).WithContext(ctx))
			require.Equal(t, want, time.Since(began), speed)
			if want == time.Hour {
				require.ErrorIs(t, replay.Wait(ctx), context.DeadlineExceeded, speed)
			}
			cancel()
		}
	})
}

// At any speed, a client has time to send its next request.
func TestAClientThatIsSlowerThanTheReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		replay := twoInformers(t).Replay(ReplayOptions{Speed: maxSpeed})
		one := new(jitter.Recall)
		told(t, replay, of(get(t, pods), one))
		time.AfterFunc(5*time.Second, func() { told(t, replay, of(get(t, follow), one)) })
		require.NoError(t, replay.Wait(t.Context()))
	})
}

// The error says that the beginning of the recording was left out.
func TestALeftOutListIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		noise := make([]byte, 900_000)
		source := rand.NewChaCha8([32]byte{})
		_, _ = source.Read(noise)
		f := recorded(t, Options{MaxSize: leastMaxSize}, func(r *Recorder) {
			told(t, r.RoundTripper(serve(200, part{0, "list", nil}), nil), get(t, pods))
			for range 3 {
				told(t, r.RoundTripper(serve(200, part{0, string(noise), nil}), nil), get(t, pods+"&watch=true"))
			}
		})
		require.Positive(t, f.LeftOut.Requests)
		require.ErrorContains(t, f.Replay(ReplayOptions{}).fails(t, pods), "or is among the 3 oldest requests, which were dropped")
	})
}

// counting counts the bytes read from a file.
type counting struct {
	io.ReaderAt
	bytes int64
}

func (c *counting) ReadAt(p []byte, at int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(p, at)
	c.bytes += int64(n)
	return n, err
}

// Reading a body reads only the blocks that contain it.
func TestABodyIsReadToItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := recorded(t, Options{}, func(r *Recorder) {
			for range 50 {
				told(t, r.RoundTripper(serve(200, part{0, strings.Repeat("0123456789", 20_000), nil}), nil), get(t, pods))
			}
		})
		c := &counting{ReaderAt: f.blocks.in}
		f.blocks.in = c
		body, err := io.ReadAll(f.Body(f.Requests[0]))
		require.NoError(t, err)
		require.Len(t, body, 200_000)
		require.Less(t, c.bytes, f.Size/10)
	})
}

// All responses share one clock: if one client is late, the others wait.
func TestLateClientDelaysAllResponses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const nodes = "https://example.com/api/v1/nodes"
		f := recorded(t, Options{}, func(r *Recorder) {
			tap := r.RoundTripper(serve(200, part{10 * time.Second, "pod", nil}), nil)
			done := make(chan []string)
			go func() { done <- told(t, tap, get(t, pods)) }()
			time.Sleep(time.Second)
			told(t, r.RoundTripper(serve(200, part{time.Second, "node", nil}), nil), get(t, nodes))
			<-done
		})
		replay := f.Replay(ReplayOptions{})
		seen := make(chan []string)
		go func() { seen <- told(t, replay, get(t, pods)) }()
		time.Sleep(7 * time.Second)
		require.Equal(t, "1s node", told(t, replay, get(t, nodes))[1])
		require.Equal(t, "16s pod", (<-seen)[1], "6 seconds later than recorded, as the node")
		require.NoError(t, replay.Wait(t.Context()))
	})
}

// Events with the same time are played in the order of arrival.
func TestOrderOfSimultaneousResponses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const streams = 20
		var order []int
		f := recorded(t, Options{}, func(r *Recorder) {
			for n := range streams {
				q, ok := read(get(t, fmt.Sprintf("https://example.com/api/v1/namespaces/n%d/pods", n)))
				require.True(t, ok)
				_, ok = r.begin(&q)
				require.True(t, ok)
				r.take(event{record: record{kind: kindAnswer, request: r.last, payload: encode(Answer{Status: 200})}})
			}
			time.Sleep(time.Second)
			for _, n := range rand.New(rand.NewPCG(1, 2)).Perm(streams) {
				order = append(order, n)
				r.take(event{record: record{kind: kindChunk, request: uint64(n + 1), payload: []byte("x")}})
			}
		})
		replay := f.Replay(ReplayOptions{})
		came := make(chan int, streams)
		for n := range streams {
			go func() {
				resp, err := replay.RoundTrip(get(t, fmt.Sprintf("https://example.com/api/v1/namespaces/n%d/pods", n)))
				if assert.NoError(t, err) {
					_, err = resp.Body.Read(make([]byte, 10))
					assert.NoError(t, err)
					came <- n
					assert.NoError(t, resp.Body.Close())
				}
			}()
		}
		for _, want := range order {
			require.Equal(t, want, <-came)
		}
		require.NoError(t, replay.Wait(t.Context()))
	})
}

// Clusters behind one host are distinguished by the prefix of their paths.
func TestClustersBehindOneHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const a, b = "https://rancher/k8s/clusters/a", "https://rancher/k8s/clusters/b"
		f := recorded(t, Options{}, func(r *Recorder) {
			for _, server := range []string{a, b} {
				told(t, r.RoundTripper(serve(200, part{0, server, nil}), nil), get(t, server+"/api/v1/pods"))
			}
		})
		require.Equal(t, a, f.Server())
		for asked, want := range map[string]string{a: a, b: b, "https://rancher": a} {
			require.Contains(t, told(t, f.Replay(ReplayOptions{}), get(t, asked+"/api/v1/pods"))[1], want)
		}
	})
}

func TestAReplayOfNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := recorded(t, Options{}, func(r *Recorder) { one(t, r) })
		began := time.Now()
		err := f.Replay(ReplayOptions{Only: func(*Request) bool { return false }}).Wait(t.Context())
		require.ErrorContains(t, err, "ReplayOptions.Only selects none of its 1 requests")
		require.Zero(t, time.Since(began))
	})
}

// Every use of a closed file fails with an error that says so.
func TestAFileThatIsClosedWhileItPlays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := recorded(t, Options{}, func(r *Recorder) {
			for range 3 {
				one(t, r)
				time.Sleep(time.Minute)
			}
		})
		r := f.Replay(ReplayOptions{})
		told(t, r, get(t, pods))
		waited := make(chan error)
		go func() { waited <- r.Wait(t.Context()) }()
		require.NoError(t, f.Close())
		for range 4 {
			_, err := r.RoundTrip(get(t, pods))
			require.ErrorIs(t, err, ErrClosed)
		}
		require.ErrorIs(t, <-waited, ErrClosed)
	})
}

// Nothing is played to a client that has left, even if it is due.
func TestAClosedAnswerPlaysNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := recorded(t, Options{}, func(r *Recorder) {
			for range 20 {
				told(t, r.RoundTripper(serve(200, part{0, "0123456789", nil}), nil), get(t, pods))
			}
		})
		replay := f.Replay(ReplayOptions{Speed: math.Inf(1)})
		for range 20 {
			resp, err := replay.RoundTrip(get(t, pods))
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			_, err = resp.Body.Read(make([]byte, 1))
			require.ErrorIs(t, err, errStopped)
		}
	})
}

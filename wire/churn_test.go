package wire

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// churn is the body of a watch with many events. The number of uniquePod(0) in the template is
// replaced by i / repeat in event i, so each content occurs repeat times and never again.
type churn struct {
	frame   []byte
	places  []int // positions of the number in frame
	repeat  int
	events  int
	written int
	rest    []byte
}

const numberDigits = 32

func newChurn(t testing.TB, events, repeat int) *churn {
	c := &churn{frame: frameOf(t, MediaProtobuf, "MODIFIED", podKind, uniquePod(0)), repeat: repeat, events: events}
	zero := fmt.Appendf(nil, "%0*d", numberDigits, 0)
	for at := 0; ; at += numberDigits {
		next := bytes.Index(c.frame[at:], zero)
		if next < 0 {
			break
		}
		at += next
		c.places = append(c.places, at)
	}
	return c
}

func (c *churn) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if len(c.rest) == 0 {
			if c.written == c.events {
				return n, io.EOF
			}
			number := fmt.Appendf(nil, "%0*d", numberDigits, c.written/c.repeat)
			for _, at := range c.places {
				copy(c.frame[at:], number)
			}
			c.rest = c.frame
			c.written++
		}
		copied := copy(p[n:], c.rest)
		c.rest, n = c.rest[copied:], n+copied
	}
	return n, nil
}

// heapInUse returns the bytes of the live objects after a collection and the cleanups that follow
// it.
func heapInUse() uint64 {
	for range 3 {
		runtime.GC()
		runtime.Gosched()
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// Up to a million objects pass through a cache of a thousand. At the end the pool holds no more
// than at the beginning, neither for content that never repeats, nor for content that repeats just
// often enough to be remembered.
func TestW03_ChurnLeavesNothing(t *testing.T) {
	for _, repeat := range []int{1, 2, 3} {
		events := 1_000_000 / (2*repeat - 1)
		if raceDetector {
			events = 20_000
		}
		t.Run(fmt.Sprintf("every content %d times", repeat), func(t *testing.T) {
			pool := NewPool()
			cache := make([]*corev1.Pod, 1000)
			early, most, i := uint64(0), 0, 0
			for ev, err := range podDecoder(t, MediaProtobuf, Options{Pool: pool}).Watch(newChurn(t, events, repeat), nil) {
				require.NoError(t, err)
				cache[i%len(cache)] = ev.Object
				if i%1000 == 0 {
					most = max(most, pool.Len())
				}
				if i++; i == events/5 {
					early = heapInUse()
				}
			}
			require.Equal(t, events, i)
			late := heapInUse()
			t.Logf("%d KB after a fifth, %d KB at the end, %d parts at most", early>>10, late>>10, most)
			require.Less(t, late, early+early/10+512<<10)
			if repeat == 1 {
				require.Zero(t, most)
			}
			runtime.KeepAlive(cache)
			cache = nil
			requireForgotten(t, pool)
		})
	}
}

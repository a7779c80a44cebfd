package wire

import (
	"bytes"
	"io"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// A busy watch is decoded on all processors without a visible difference: the same events in the
// same order before the same error.
func TestW01_BusyWatches(t *testing.T) {
	t.Parallel()
	const events = 600
	random := rand.New(rand.NewPCG(20261120, 2))
	for _, media := range bothMedia {
		var frames [][]byte
		for i := range events {
			p := uniquePod(i % 7)
			p.ResourceVersion = strconv.Itoa(i + 1)
			frames = append(frames, frameOf(t, media, []string{"ADDED", "MODIFIED", "DELETED", "BOOKMARK"}[i%4], podKind, p))
		}
		sound := bytes.Join(frames, nil)
		broken := frameOf(t, media, "TRUNCATED", podKind, pod("a"))
		bodies := map[string][]byte{
			"sound":       sound,
			"cut":         sound[:len(sound)*2/3],
			"with an odd": append(append(bytes.Join(frames[:events/2], nil), broken...), sound...),
		}
		c := newContest[*corev1.Pod](t, media, Options{Kind: podKind}, NewPool())
		for name, body := range bodies {
			want, wantErr := readWatch(c.reference, &chunks{bytes.NewReader(body), random})
			require.Equal(t, name != "sound", wantErr != nil)
			for _, d := range c.compiled {
				got, err := readWatch(d.typedDecoder, bytes.NewReader(body))
				requireSame(t, wantErr, err, name)
				require.Len(t, got, len(want))
				for i := range got {
					require.Equal(t, want[i].Type, got[i].Type)
					require.Equal(t, want[i].Bytes, got[i].Bytes)
					requireSame(t, want[i].Object, got[i].Object, name)
				}
			}
		}
	}
}

// Everything received is yielded before the reader is called again: an event must not wait for the
// next one.
func TestNothingWaitsForTheNetwork(t *testing.T) {
	for _, media := range bothMedia {
		var body []byte
		for i := range 200 {
			body = append(body, frameOf(t, media, "MODIFIED", podKind, pod("pod-"+strconv.Itoa(i)))...)
		}
		var asked atomic.Int32
		r := &pieces{body: body, before: func(sent []byte) {
			whole := bytes.Count(sent, []byte("MODIFIED"))
			if asked.Load() < int32(whole)-1 {
				t.Errorf("%s: %d events heard of when %d had begun to arrive", media, asked.Load(), whole)
			}
		}}
		for ev, err := range podDecoder(t, media, Options{}).Watch(r, nil) {
			require.NoError(t, err)
			require.Equal(t, "pod-"+strconv.Itoa(int(asked.Load())), ev.Object.Name)
			require.False(t, ev.Received.After(ev.Decoded))
			asked.Add(1)
		}
		require.EqualValues(t, 200, asked.Load())
	}
}

// pieces returns a body in pieces of all sizes, and calls before with the part returned so far.
type pieces struct {
	body   []byte
	at, n  int
	before func(sent []byte)
}

func (p *pieces) Read(b []byte) (int, error) {
	p.before(p.body[:p.at])
	if p.at == len(p.body) {
		return 0, io.EOF
	}
	p.n = p.n*2 + 1
	if p.n > 1<<18 {
		p.n = 1
	}
	n := copy(b[:min(len(b), p.n)], p.body[p.at:])
	p.at += n
	return n, nil
}

package wire

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/wire/internal/frame"
)

// numbers finds values of fixed size in a body and decodes them: value n is n.
type numbers struct {
	*frame.Source
	*parallel[int]
	out []int
}

const numberSize = 1 << 10

var errOdd = errors.New("odd one out")

// newNumbers reads such a body. Decoding fails on value bad and
// panics on value mad; the consumer stops after so many.
func newNumbers(r io.Reader, bad, mad, enough int) *numbers {
	n := &numbers{Source: frame.NewSource(r)}
	decode := func(i frame.Item, number int) (int, error) {
		switch number {
		case bad:
			return 0, errOdd
		case mad:
			panic("mad")
		}
		return strconv.Atoi(string(bytes.TrimLeft(i.Raw, " ")))
	}
	n.parallel = newParallel(n.Source, func() decodeFunc[int] { return decode }, func(v int) bool {
		n.out = append(n.out, v)
		return len(n.out) != enough
	})
	return n
}

func (n *numbers) run() error {
	defer n.close()
	for {
		raw, err := n.Next(numberSize)
		if err == nil {
			n.found(frame.Item{Raw: raw})
			continue
		}
		if earlier := n.flush(); earlier != nil || err == io.EOF {
			return earlier
		}
		return err
	}
}

func TestValuesComeInOrderFromAllProcessors(t *testing.T) {
	t.Parallel()
	const values, never = 2000, -1
	random := rand.New(rand.NewPCG(20261120, 1))
	var body []byte
	for i := range values {
		text := strconv.Itoa(i)
		body = append(body, bytes.Repeat([]byte(" "), numberSize-len(text))...)
		body = append(body, text...)
	}
	inOrder := func(t *testing.T, out []int, n int) {
		require.Len(t, out, n)
		for i, v := range out {
			require.Equal(t, i, v)
		}
	}
	for range 20 {
		at := random.IntN(values)
		arrive := func() io.Reader { return &chunks{bytes.NewReader(body), random} }

		n := newNumbers(arrive(), never, never, never)
		require.NoError(t, n.run())
		inOrder(t, n.out, values)

		n = newNumbers(arrive(), at, never, never)
		require.ErrorIs(t, n.run(), errOdd)
		inOrder(t, n.out, at)

		n = newNumbers(arrive(), never, at, never)
		require.PanicsWithValue(t, "mad", func() { _ = n.run() })
		require.LessOrEqual(t, len(n.out), at)
		inOrder(t, n.out, len(n.out))

		n = newNumbers(arrive(), never, never, at+1)
		require.ErrorIs(t, n.run(), errStopped)
		inOrder(t, n.out, at+1)

		n = newNumbers(io.MultiReader(bytes.NewReader(body[:at*numberSize]), &brokenReader{}), never, never, never)
		require.ErrorIs(t, n.run(), errOdd)
		inOrder(t, n.out, at)
	}
}

type brokenReader struct{}

func (*brokenReader) Read([]byte) (int, error) { return 0, errOdd }

// Whatever arrives is told before the reader is asked for more: an event must not
// wait for the next one.
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

// pieces hands out a body in pieces of all sizes, and calls before with what was
// handed out so far.
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

// A watch that is busy is decoded on all processors, and nobody sees a difference:
// the same events in the same order before the same error.
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
				got, err := readWatch(d.Decoder, bytes.NewReader(body))
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

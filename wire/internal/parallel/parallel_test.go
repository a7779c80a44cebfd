package parallel

import (
	"bytes"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/wire/internal/frame"
)

// numbers finds values of fixed size in a body and decodes them: value n is n.
type numbers struct {
	*frame.Source
	*Decoder[int]
	out []int
}

const numberSize = 1 << 10

var errOdd = errors.New("odd one out")

// newNumbers reads such a body. Decoding fails at value bad and panics at value mad, or calls
// Goexit if mad is negative. The consumer stops after enough values.
func newNumbers(r io.Reader, bad, mad, enough int) *numbers {
	n := &numbers{Source: frame.NewSource(r)}
	decode := func(i frame.Item, number int) (int, error) {
		switch number {
		case bad:
			return 0, errOdd
		case mad:
			panic("mad")
		case -mad:
			runtime.Goexit()
		}
		return strconv.Atoi(string(bytes.TrimLeft(i.Raw, " ")))
	}
	n.Decoder = New(n.Source, func() Decode[int] { return decode }, func(v int) bool {
		n.out = append(n.out, v)
		return len(n.out) != enough
	})
	return n
}

func (n *numbers) run() error {
	defer n.Close()
	for {
		raw, err := n.Next(numberSize)
		if err == nil {
			n.Add(frame.Item{Raw: raw})
			continue
		}
		if earlier := n.Flush(); earlier != nil || err == io.EOF {
			return earlier
		}
		return err
	}
}

func TestValuesComeInOrderFromAllProcessors(t *testing.T) {
	t.Parallel()
	const values, never = 2000, math.MaxInt
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
		arrive := func() io.Reader { return &gusts{bytes.NewReader(body), random} }

		n := newNumbers(arrive(), never, never, never)
		require.NoError(t, n.run())
		inOrder(t, n.out, values)

		n = newNumbers(arrive(), at, never, never)
		require.ErrorIs(t, n.run(), errOdd)
		inOrder(t, n.out, at)

		n = newNumbers(arrive(), never, at, never)
		requirePanic(t, n)
		require.LessOrEqual(t, len(n.out), at)
		inOrder(t, n.out, len(n.out))

		if at > 1 {
			n = newNumbers(arrive(), never, -at, never)
			returned := make(chan bool, 1)
			go func() {
				ended := false
				defer func() { returned <- ended }()
				_ = n.run()
				ended = true
			}()
			require.False(t, <-returned, "the goroutine of value %d ended", at)
			require.LessOrEqual(t, len(n.out), at)
			inOrder(t, n.out, len(n.out))
		}

		n = newNumbers(arrive(), never, never, at+1)
		require.ErrorIs(t, n.run(), ErrStopped)
		inOrder(t, n.out, at+1)

		n = newNumbers(io.MultiReader(bytes.NewReader(body[:at*numberSize]), &brokenReader{}), never, never, never)
		require.ErrorIs(t, n.run(), errOdd)
		inOrder(t, n.out, at)
	}
}

// requirePanic requires a panic with the stack where it began.
func requirePanic(t *testing.T, n *numbers) {
	t.Helper()
	defer func() {
		switch p := recover().(type) {
		case string:
			require.Equal(t, "mad", p) // in the caller's goroutine
		case *Panic:
			require.Equal(t, "mad", p.Value)
			require.Regexp(t, `^mad\n\n(.|\n)*newNumbers`, p.Error())
		default:
			require.Fail(t, "no panic of a value", "%v", p)
		}
	}()
	_ = n.run()
}

type brokenReader struct{}

func (*brokenReader) Read([]byte) (int, error) { return 0, errOdd }

// gusts returns a body in pieces of random size, as a network does.
type gusts struct {
	r      io.Reader
	random *rand.Rand
}

func (c *gusts) Read(p []byte) (int, error) {
	return c.r.Read(p[:1+c.random.IntN(min(len(p), 1<<c.random.IntN(18)))])
}

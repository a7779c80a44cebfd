package pack

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/stretchr/testify/require"
)

// requireBeside checks that S2 decodes what appendDelta writes for src, and the size of the block.
func requireBeside(t testing.TB, sibling, src []byte) (block []byte) {
	t.Helper()
	block = appendDelta([]byte("before"), sibling, src)
	require.Equal(t, "before", string(block[:6]))
	block = block[6:]
	dict := s2.NewDict(append([]byte{0}, sibling...))
	require.NotNil(t, dict)
	got, err := dict.Decode(nil, block)
	require.NoError(t, err)
	require.True(t, bytes.Equal(src, got), "%d bytes beside %d", len(src), len(sibling))
	require.LessOrEqual(t, len(block), len(src)+len(src)/256+6)
	return block
}

// FuzzBeside compresses any text with any sibling.
func FuzzBeside(f *testing.F) {
	_, one := pod(f, 0, false)
	_, other := pod(f, 200, false)
	f.Add(one, other)
	f.Add(one, one)
	f.Add(one[:s2.MinDictSize], other)
	f.Add(other, []byte{})
	f.Add(bytes.Repeat([]byte("a"), 1000), bytes.Repeat([]byte("a"), 2000))
	f.Fuzz(func(t *testing.T, sibling, src []byte) {
		if len(sibling) < s2.MinDictSize || !canDelta(len(sibling), len(src)) {
			t.Skip()
		}
		requireBeside(t, sibling, src)
	})
}

// Texts of all sizes are restored, whether they have nothing, something or everything in common.
// Some consist of a few different bytes, so that matches are everywhere.
func TestDeltasAreRestored(t *testing.T) {
	const seed = 20261124
	random := rand.New(rand.NewPCG(seed, 1))
	noise := func(n, letters int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(random.IntN(letters))
		}
		return b
	}
	for n := range 3000 {
		letters := []int{1, 2, 4, 256}[n%4]
		most := 1 << (5 + n%11)
		sibling := noise(s2.MinDictSize+random.IntN(most), letters)
		src := bytes.Clone(sibling)
		for range random.IntN(12) { // replace, insert, remove or move bytes
			from := random.IntN(len(src) + 1)
			to := from + random.IntN(min(len(src)-from, 1<<random.IntN(12))+1)
			part := noise(random.IntN(1<<random.IntN(9)), letters)
			if at := random.IntN(len(sibling)); random.IntN(4) == 0 {
				part = sibling[at:]
			}
			src = append(append(src[:from:from], part...), src[to:]...)
		}
		src = src[:min(len(src), math.MaxUint16-len(sibling))]
		require.True(t, canDelta(len(sibling), len(src)))
		requireBeside(t, sibling, src)
	}
}

// A copy may be as long as possible, and all of its lengths are encoded correctly.
func TestCopiesOfEveryLength(t *testing.T) {
	random := rand.New(rand.NewPCG(20261124, 2))
	sibling := make([]byte, math.MaxUint16/2)
	for i := range sibling {
		sibling[i] = byte(random.Uint32())
	}
	for n := range len(sibling) + 1 {
		if n > 1000 && n%997 != 0 && n < len(sibling)-3 {
			continue
		}
		require.LessOrEqual(t, len(requireBeside(t, sibling, sibling[:n])), 10, n)
		at := len(sibling) - n
		if block := requireBeside(t, sibling, sibling[at:]); n >= minMatch+stride-1 && at <= window {
			require.LessOrEqual(t, len(block), 13, n)
		}
	}
}

// A text with nothing in common with its sibling takes a few bytes more than its size.
func TestNothingInCommon(t *testing.T) {
	random := rand.New(rand.NewPCG(20261124, 3))
	noise := make([]byte, math.MaxUint16)
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	half := len(noise) / 2
	require.Len(t, requireBeside(t, noise[:half], noise[half:2*half]), half+3+3)
	require.False(t, canDelta(half, half+2))
	w := deltaEncoder{src: noise[half:], sibling: noise[:half]}
	_, _, found := w.nextMatch(0, 0)
	require.False(t, found)
}

// A Pod compressed with its sibling is no larger than with S2's own encoder.
func TestDeltaIsAsSmallAsS2(t *testing.T) {
	siblings := map[string][]byte{}
	dicts := map[string]*s2.Dict{}
	var plain, s2s, ours, count int
	for i := range 1600 {
		group, raw := pod(t, i, false)
		sibling := siblings[group]
		if sibling == nil {
			siblings[group], dicts[group] = raw, s2.NewDict(append([]byte{0}, raw...))
			continue
		}
		count++
		plain += len(raw)
		s2s += len(dicts[group].Encode(nil, raw))
		ours += len(requireBeside(t, sibling, raw))
	}
	t.Logf("%d Pods: %d bytes each, %d with S2, %d here", count, plain/count, s2s/count, ours/count)
	require.LessOrEqual(t, ours, s2s)
}

func BenchmarkBeside(b *testing.B) {
	_, sibling := pod(b, 0, false)
	_, src := pod(b, 200, false)
	_, stranger := pod(b, 7, true)
	_, hostile := pod(b, 8, true)
	for _, of := range []struct {
		name         string
		sibling, src []byte
	}{{"sibling", sibling, src}, {"hostile", stranger, hostile}} {
		room := make([]byte, 0, s2.MaxEncodedLen(len(of.src)))
		b.Run(of.name+"/here", func(b *testing.B) {
			for b.Loop() {
				appendDelta(room, of.sibling, of.src)
			}
		})
		raw := append([]byte{0}, of.sibling...)
		dict := s2.NewDict(raw)
		b.Run(of.name+"/S2", func(b *testing.B) {
			for b.Loop() {
				dict.Encode(room, of.src)
			}
		})
		b.Run(of.name+"/S2 with a new table", func(b *testing.B) {
			for b.Loop() {
				s2.NewDict(raw).Encode(room, of.src)
			}
		})
	}
}

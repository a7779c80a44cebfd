package pack

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/internal/objects"
)

func pod(t testing.TB, i int, hostile bool) (group string, raw []byte) {
	p := objects.Pod(1, i, objects.Options{Hostile: hostile})
	raw, err := p.Marshal()
	require.NoError(t, err)
	return string(p.OwnerReferences[0].UID), raw
}

// Packed bytes are restored, and the prefix is separate.
func TestPackedBytesAreRestored(t *testing.T) {
	s := NewCompressor()
	type kept struct {
		text Text
		raw  string
	}
	var all []kept
	put := func(group string, raw []byte) {
		all = append(all, kept{s.Pack(group, []byte("head"), raw), string(raw)})
	}
	put("", nil)
	put("", []byte("short"))
	put("a", []byte("short"))
	big := make([]byte, 3*maxBase)
	for i := range big {
		big[i] = byte(rand.Uint32())
	}
	put("a", big)
	put("a", big[:maxBase])
	put("a", append(big[:maxBase:maxBase], "more"...))
	for i := range 600 {
		group, raw := pod(t, i, i%5 == 0)
		put(group, raw)
		if i%3 == 0 {
			put("", raw)
		}
		if i%50 == 0 {
			runtime.GC()
		}
	}
	for _, k := range all {
		require.Equal(t, "head", k.text.Prefix())
		got, err := s.Unpack([]byte("before"), k.text)
		require.NoError(t, err)
		require.Equal(t, "before"+k.raw, string(got))
	}
}

// A sibling takes a tenth of its size, a text without siblings a quarter, and incompressible bytes
// no more than their size.
func TestSiblingsAreSmall(t *testing.T) {
	s := NewCompressor()
	var plain, packed int
	var texts []Text
	for i := range 2000 {
		group, raw := pod(t, i, false)
		text := s.Pack(group, nil, raw)
		if texts = append(texts, text); i >= 1000 {
			plain, packed = plain+len(raw), packed+text.HeldBytes()
		}
	}
	require.Less(t, packed, plain/11)
	noise := make([]byte, 5000)
	for i := range noise {
		noise[i] = byte(rand.Uint32())
	}
	require.Equal(t, len(noise), s.Pack("", nil, noise).HeldBytes())
	require.Equal(t, len(noise)+4, s.Pack("noise", []byte("head"), noise).HeldBytes())
	runtime.KeepAlive(texts)
}

// A base is found by its group while a text refers to it, and no longer (W03).
func TestW03_BaseIsFreedWithItsLastUser(t *testing.T) {
	s := NewCompressor()
	group, raw := pod(t, 0, false)
	first := s.Pack(group, nil, raw)
	runtime.GC()
	require.Equal(t, 1, s.groupCount())
	require.Equal(t, isBase, first.form)
	_, sibling := pod(t, 200, false)
	second := s.Pack(group, nil, sibling)
	require.Equal(t, packed, second.form)
	require.Same(t, first.base, second.base)
	first = Text{}
	runtime.GC()
	got, err := s.Unpack(nil, second)
	require.NoError(t, err)
	require.Equal(t, sibling, got)
	require.Equal(t, 1, s.groupCount())
	second = Text{}
	s.recent = [recentBases]*dictionary{}
	for range 100 {
		runtime.GC()
		if runtime.Gosched(); s.groupCount() == 0 {
			return
		}
	}
	t.Fatal("the group is still known")
}

// If the objects of a group change, the group gets another base.
func TestAPoorBaseIsReplaced(t *testing.T) {
	s := NewCompressor()
	for i := range firstPeriod { // to create samples
		_, raw := pod(t, i, false)
		s.Pack("", nil, raw)
	}
	_, old := pod(t, 0, false)
	first := s.Pack("group", nil, old)
	var before, after Text
	for i := range 40 {
		if i == 1 {
			runtime.GC()
		}
		_, raw := pod(t, 1+200*i, false)
		text := s.Pack("group", nil, raw)
		if before, after = after, text; i == 0 {
			require.Equal(t, isBase, text.form, "another application's")
		}
	}
	require.Same(t, before.base, after.base)
	require.Less(t, after.HeldBytes(), int(after.size)/8)
	runtime.KeepAlive(first)
}

func TestPackingInManyGoroutines(t *testing.T) {
	s := NewCompressor()
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 300 {
				group, raw := pod(t, i*(g%2+1), false)
				text := s.Pack(group, nil, raw)
				got, err := s.Unpack(nil, text)
				if err != nil || string(got) != string(raw) {
					t.Errorf("%d: %v", i, err)
				}
			}
		})
	}
	all.Wait()
}

// Damaged bytes cause an error and nothing worse.
func FuzzDamagedTexts(f *testing.F) {
	s := NewCompressor()
	group, raw := pod(f, 0, false)
	keep := s.Pack(group, nil, raw)
	_, sibling := pod(f, 200, false)
	text := s.Pack(group, nil, sibling)
	f.Add([]byte(text.data), text.size)
	f.Add([]byte(text.data[:len(text.data)/2]), text.size)
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x0f}, uint32(1<<32-1))
	f.Fuzz(func(t *testing.T, data []byte, size uint32) {
		if size > 1<<24 {
			size %= 1 << 24
		}
		damaged := Text{data: string(data), base: text.base, size: size, sum: text.sum, form: packed}
		got, err := s.Unpack(nil, damaged)
		if err != nil {
			require.ErrorIs(t, err, ErrDamaged)
			return
		}
		require.Equal(t, sibling, got)
	})
	runtime.KeepAlive(keep)
}

// A damaged base is an error for the texts that need it, and is not used again.
func TestADamagedBase(t *testing.T) {
	s := NewCompressor()
	group, raw := pod(t, 0, false)
	first := s.Pack(group, nil, raw)
	first.base.data = first.base.data[:10]
	_, sibling := pod(t, 200, false)
	text := s.Pack(group, nil, sibling)
	got, err := s.Unpack(nil, text)
	require.NoError(t, err)
	require.Equal(t, sibling, got)
	_, err = s.Unpack(nil, Text{data: text.data, base: first.base, size: text.size, form: packed})
	require.ErrorIs(t, err, ErrDamaged)
}

// The samples follow changes, ever more slowly.
func TestFewVersionsOfSamples(t *testing.T) {
	var c sampler
	var at []int
	for i := range 10_000 {
		if samples := c.add([]byte(fmt.Sprintf("%070d", i))); samples != nil {
			require.Len(t, samples, 70*sampleCount)
			at = append(at, i+1)
		}
	}
	require.Equal(t, []int{32, 128, 512, 2048, 8192}, at)
}

// A Compressor may be used in a bubble of virtual time.
func TestInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewCompressor()
		for i := range 50 {
			group, raw := pod(t, i, false)
			s.Pack(group, nil, raw)
			runtime.GC()
		}
	})
}

func BenchmarkPack(b *testing.B) {
	for _, hostile := range []bool{false, true} {
		b.Run(fmt.Sprintf("hostile=%v", hostile), func(b *testing.B) {
			var groups []string
			var raws [][]byte
			for i := range 5000 {
				group, raw := pod(b, i, hostile)
				groups, raws = append(groups, group), append(raws, raw)
			}
			s, held, n := NewCompressor(), 0, 0
			texts := make([]Text, len(raws))
			for b.Loop() {
				at := n % len(raws)
				texts[at] = s.Pack(groups[at], nil, raws[at])
				held += texts[at].HeldBytes()
				n++
			}
			b.ReportMetric(float64(held)/float64(n), "held-B/op")
		})
	}
}

package share

import (
	"fmt"
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// entry is a part whose memory is the string itself.
func entry(s string) found {
	return found{at: unsafe.Pointer(unsafe.StringData(s)), raw: []byte(s), n: len(s)}
}

// read notes the parts of an object, and returns which of them were expected.
func read(j *journal, site *Site, parts ...string) (expected []string) {
	j.begin(0)
	for _, s := range parts {
		if part := j.find(site, []byte(s)); part.at != nil {
			expected = append(expected, string(part.raw))
		}
		j.note(site, entry(s))
	}
	return expected
}

func TestJournalExpectsThePartsOfTheObjectBefore(t *testing.T) {
	j, site := new(journal), SiteOf("one")
	require.Empty(t, read(j, site, "a", "b", "c", "d"), "nothing came before")
	require.Equal(t, []string{"a", "b", "c", "d"}, read(j, site, "a", "b", "c", "d"))
	require.Equal(t, []string{"a", "c", "d"}, read(j, site, "a", "x", "c", "d"), "one has changed")
	require.Equal(t, []string{"a", "c", "d"}, read(j, site, "a", "c", "d"), "one is missing")
	require.Equal(t, []string{"a", "c", "d"}, read(j, site, "a", "b", "c", "d"), "one is new")
}

func TestJournalKeepsSitesApart(t *testing.T) {
	j, site, other := new(journal), SiteOf("one"), SiteOf("other")
	read(j, site, "a", "b")
	require.Empty(t, read(j, other, "a", "b"))
	require.Empty(t, read(j, site, "a", "b"))
}

func TestJournalDoesNotExpectAPartThatWasNotFound(t *testing.T) {
	j, site := new(journal), SiteOf("one")
	j.begin(0)
	j.note(site, found{})
	j.begin(0)
	require.Zero(t, j.find(site, nil))
}

func TestJournalIsUselessAfterThePoolForgot(t *testing.T) {
	j, site := new(journal), SiteOf("one")
	read(j, site, "a")
	j.begin(1)
	require.Zero(t, j.find(site, []byte("a")))
}

// Each lookup costs the same, however many parts an object has.
func TestJournalOfAHugeObjectIsShort(t *testing.T) {
	j, site := new(journal), SiteOf("one")
	for range 10 * maxJournal {
		j.note(site, entry("a"))
	}
	require.Len(t, j.now, maxJournal)
}

// W03: between two objects, a Sharer keeps nothing of the first.
func TestSharerKeepsNoPartBetweenObjects(t *testing.T) {
	pool, at := NewPool(), StringSite(t.Name())
	s := Sharer{Pool: pool}
	text := []byte("a text of some length")
	for i := range 3 {
		s.BeginObject(uint8(i), len(text))
		require.True(t, s.Worthwhile(at, len(text)))
		found, n, hash, keep := s.Find(at, text)
		if keep {
			pool.RememberString(hash, text)
		}
		require.Equal(t, i == 2, found != nil, "object %d", i)
		if found != nil {
			require.Equal(t, string(text), unsafe.String((*byte)(found), n))
		}
		s.EndObject()
	}
	for i := 0; pool.Len() > 0; i++ {
		require.Less(t, i, 1000, "the part is still in memory")
		runtime.GC()
		runtime.Gosched()
	}
	runtime.KeepAlive(&s)
}

// BenchmarkFind looks for forty parts of an object whose sibling came before, among those of many others.
func BenchmarkFind(b *testing.B) {
	for _, apps := range []int{10, 1000} {
		b.Run(fmt.Sprint(apps), func(b *testing.B) {
			pool, at := NewPool(), SiteOf(b.Name())
			s := Sharer{Pool: pool}
			parts := make([][]byte, 40*apps)
			var held []unsafe.Pointer
			for i := range parts {
				parts[i] = fmt.Appendf(nil, "%0100d", i)
				own := &parts[i][0]
				pool.remember(at.kind, pool.hash(at.kind, parts[i]), parts[i], unsafe.Pointer(own), 1, 0, 0)
				held = append(held, unsafe.Pointer(own))
			}
			app := 0
			for b.Loop() {
				s.BeginObject(0, 1<<20)
				app++
				of := app / 10 % apps
				for _, raw := range parts[40*of : 40*of+40] {
					s.Worthwhile(at, len(raw))
					s.Find(at, raw)
				}
				s.EndObject()
			}
			runtime.KeepAlive(held)
		})
	}
}

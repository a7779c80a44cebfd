package flight

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
)

// bestOfAll returns the expected result of spare.best by checking all tracks.
func (r *Recorder) bestOfAll() (best *track) {
	for _, t := range r.tracks {
		switch {
		case len(t.pieces) == 0:
		case best == nil, t.orphaned && !best.orphaned:
			best = t
		case t.orphaned != best.orphaned:
		case len(t.pieces) > len(best.pieces), len(t.pieces) == len(best.pieces) && t.written < best.written:
			best = t
		}
	}
	return best
}

func TestPieceIsTakenFromTheBestTrack(t *testing.T) {
	for seed := range uint64(5) {
		random := rand.New(rand.NewPCG(seed, 0))
		r := New(30 * pieceSize)
		var tracks []*Track
		for range 5_000 {
			switch n := random.IntN(1000); {
			case n < 10:
				tracks = append(tracks, r.Track(Label{}))
			case n < 15 && len(tracks) > 0:
				at := random.IntN(len(tracks))
				r.orphan(tracks[at].track) // as when it is garbage-collected
				tracks[at] = tracks[len(tracks)-1]
				tracks = tracks[:len(tracks)-1]
			case n < 17:
				r.Resize(random.IntN(40) * pieceSize)
			case len(tracks) > 0:
				tracks[random.IntN(len(tracks))].Record(&Event{Kind: Turned, Text: strings.Repeat("x", random.IntN(maxText))})
			}
			held := 0
			for _, each := range r.tracks {
				held += len(each.pieces)
			}
			if held+r.free != r.pieces {
				t.Fatalf("seed %d: %d pieces are held and %d free, of %d", seed, held, r.free, r.pieces)
			}
			if best := r.bestOfAll(); best != nil && r.spare.best() != best || best == nil && len(r.spare) > 0 {
				t.Fatalf("seed %d: track %d is said to spare a piece best, and %v does", seed, r.spare.best().number, best)
			}
		}
		runtime.KeepAlive(tracks)
	}
}

func BenchmarkTracks(b *testing.B) {
	for _, n := range []int{1, 100, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := New(DefaultSize)
			tracks := make([]*Track, n)
			for i := range tracks {
				tracks[i] = r.Track(Label{Role: Handler, Name: "handler"})
			}
			e := Event{Kind: Turned, Outcome: "Watching", RV: "123456789"}
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				tracks[i%n].Record(&e)
				i++
			}
			runtime.KeepAlive(tracks)
		})
	}
}

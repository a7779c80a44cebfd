package torture

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/millrace-dev/millrace/test/torture/clock"
)

var (
	duration = flag.Duration("duration", 45*time.Second, "how long TestTorture begins new episodes")
	seed     = flag.Uint64("seed", 5355, "draws the episodes; the default begins with kinds that are far apart")
	only     = flag.String("only", "", "play only the kinds of episodes whose names match this `regexp`")
)

// TestTorture breaks a cluster in one way after the other. After each it checks whether all clients
// have noticed, reported the fault, and reached the state of the server again.
func TestTorture(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the real API server")
	}
	chosen, err := regexp.Compile(*only)
	if err != nil {
		t.Fatalf("-only: %v", err)
	}
	kinds := slices.DeleteFunc(slices.Concat(episodes, clockEpisodes, diskEpisodes), func(e episode) bool {
		return !chosen.MatchString(e.kind) || e.slow && *duration < 5*time.Minute && *only == ""
	})
	if *duration <= 0 || len(kinds) == 0 {
		t.Fatalf("nothing would be played: -duration is %s, and -only=%q leaves %d kinds of episodes", *duration, *only, len(kinds))
	}
	began := time.Now()
	w := newWorld(t, *seed)
	took := w.converges()
	before := w.left()
	fmt.Printf("seed %d: started in %.1fs, all the same after %.1fs; %d goroutines, %d connections, %d MB\n",
		*seed, time.Since(began).Seconds()-took.Seconds(), took.Seconds(), before.goroutines, before.connections, before.heap>>20)
	tally := map[string]*results{}
	cards := deck{random: w.random, from: w.playable(kinds)}
	if len(cards.from) == 0 {
		t.Fatal("nothing that was chosen can be played here")
	}
	for n := 1; n == 1 || time.Since(began) < *duration; n++ {
		e := cards.draw()
		failures := w.failures()
		w.play(t.Context(), n, e, tally)
		w.nothingIsLeft(before)
		if w.failures() > failures {
			fmt.Printf("        after %q; again: make torture SEED=%d\n", e.kind, *seed)
		}
	}
	w.stop()
	if answer := until(5*time.Second, func() string { return join(ours()) }); answer != "" {
		w.complain("goroutines are left after everybody has stopped:\n%s", answer)
	}
	w.summary(tally, time.Since(began))
}

// playable removes the episodes that this machine or build does not support, and logs them.
func (w *world) playable(kinds []episode) []episode {
	lacks := map[string]error{} // by kind
	note := func(kinds []episode, missing error) {
		for _, e := range kinds {
			lacks[e.kind] = missing
		}
	}
	note(clockEpisodes, clock.Set(0))
	note(diskEpisodes, w.disk.missing)
	return slices.DeleteFunc(slices.Clone(kinds), func(e episode) bool {
		if lacks[e.kind] != nil {
			fmt.Printf("not played: %s: %v\n", e.kind, lacks[e.kind])
		}
		return lacks[e.kind] != nil
	})
}

// results are the results of one kind of episode.
type results struct {
	played  int
	longest time.Duration // until convergence
}

// play plays one episode, including whims.
func (w *world) play(ctx context.Context, n int, e episode, tally map[string]*results) {
	for range w.random.IntN(6) {
		w.subjects[w.random.IntN(len(w.subjects))].whim(w.random)
	}
	w.begin.Store(new(time.Now()))
	e.play(w, ctx)
	lasted := time.Since(w.began())
	took := w.converges()
	fmt.Printf("%3d  %-45s %5.1fs, the same %5.1fs later\n", n, e.kind, lasted.Seconds(), took.Seconds())
	r := tally[e.kind]
	if r == nil {
		r = &results{}
		tally[e.kind] = r
	}
	r.played++
	r.longest = max(r.longest, took)
}

// summary logs the results in a form that a page can quote.
func (w *world) summary(tally map[string]*results, lasted time.Duration) {
	var lists, relists, watches, objects uint64
	for _, f := range w.subjects {
		s := f.Status()
		lists, relists, watches = lists+s.Reflector.Lists, relists+s.Reflector.Relists, watches+s.Reflector.Watches
		objects += uint64(s.Objects)
	}
	played := 0
	for _, kind := range slices.SortedFunc(maps.Keys(tally), cmp.Compare) {
		played += tally[kind].played
		fmt.Printf("| %s | %d | %.1f s |\n", kind, tally[kind].played, tally[kind].longest.Seconds())
	}
	fmt.Printf("seed %d, %v: %d episodes, %d violations; %d changes written, %d refused; %d informers heard %d events in %d lists, %d relists, %d watches, with %d failures reported; %d terms of the election, %d managers\n",
		*seed, lasted.Round(time.Second), played, w.failures(), w.busy.writes.Load(), w.busy.refused.Load(), len(w.subjects), w.heard.Load(),
		lists, relists, watches, w.failed.Load(), w.candidates.terms.Load(), w.office.managers.Load())
	_ = os.Stdout.Sync()
}

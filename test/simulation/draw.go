package simulation

import (
	"math/rand/v2"
	"time"

	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/test/apiserver"
)

// lot is how often a deed is drawn, and for how long it lasts at most.
type lot struct {
	do     Deed
	weight int
	last   time.Duration
}

var lots = []lot{
	{"burst", 14, 0},
	{"put", 8, 0},
	{"delete", 3, 0},
	{"replace", 3, 0},
	{"pass", 10, 40 * time.Second},
	{"fault", 16, 90 * time.Second},
	{"compact", 4, 0},
	{"restart", 4, 0},
	{"down", 3, 0},
	{"up", 5, 0},
	{"lag", 2, 60 * time.Second},
	{"backup", 2, 0},
	{"restore", 1, 0},
	{"upgrade", 1, 0},
	{"access", 3, 0},
	{"definition", 2, 0},
	{"link", 12, 20 * time.Second},
	{"change", 3, 0},
	{"toggle", 4, 0},
	{"join", 4, 0},
	{"leave", 2, 0},
	{"mood", 4, 0},
	{"namespaces", 3, 0},
	{"await", 4, 0},
	{"reconcile", 2, 0},
	{"stop copier", 1, 0},
	{"candidate", 2, 0},
	{"steal copies", 1, 0},
}

// Draw makes the schedule of a seed.
func Draw(seed uint64) Schedule {
	random := rand.New(rand.NewPCG(seed, 1))
	s := Schedule{Seed: seed, World: drawWorld(random)}
	total := 0
	for _, l := range lots {
		total += l.weight
	}
	for range 20 + random.IntN(30) {
		s.Steps = append(s.Steps, drawStep(random, total))
	}
	return s
}

func drawWorld(random *rand.Rand) World {
	w := World{
		Objects:    random.IntN(names),
		History:    5 + random.IntN(100),
		Bookmarks:  time.Duration(1+random.IntN(60)) * time.Second,
		Streams:    apiserver.StreamingLists(random.IntN(3)),
		Reconciles: random.IntN(4) == 0,
	}
	if random.IntN(3) == 0 {
		w.Fronts, w.Lag = 1, time.Duration(random.IntN(5000))*time.Millisecond
	}
	w.Garbled = random.IntN(12) == 0
	for range 1 + random.IntN(3) {
		w.Informers = append(w.Informers, drawForm(random, w))
	}
	if random.IntN(5) == 0 {
		w.Candidates = 2 + random.IntN(2)
	}
	return w
}

func drawForm(random *rand.Rand, w World) Form {
	f := Form{
		Of:           Kind(random.IntN(int(kinds))),
		Initial:      reflector.Initial(random.IntN(3)),
		Compact:      random.IntN(2) == 0,
		CBOR:         random.IntN(5) == 0,
		WatchTimeout: time.Duration(5+random.IntN(120)) * time.Second,
		Selected:     random.IntN(4) == 0,
	}
	if f.Initial != reflector.WatchList && random.IntN(2) == 0 {
		f.PageSize = int64(1 + random.IntN(9))
	}
	if f.Initial == reflector.WatchList && w.Streams == apiserver.StreamingListsRefused {
		f.Initial = reflector.Auto // it would be refused for ever, as it should
	}
	if random.IntN(3) == 0 {
		f.Namespaces = 1 + random.IntN(allOfThem)
	}
	return f
}

func drawStep(random *rand.Rand, total int) Step {
	n := random.IntN(total)
	for _, l := range lots {
		if n -= l.weight; n >= 0 {
			continue
		}
		s := Step{Do: l.do, Who: random.IntN(100), N: random.IntN(1000)}
		// Some steps follow at once, others after a while; never two at one instant.
		s.Wait = time.Duration(1 + random.IntN(3_000_000))
		if random.IntN(2) == 0 {
			s.Wait += time.Duration(random.ExpFloat64() * float64(2*time.Second))
		}
		if l.last > 0 {
			s.For = time.Duration(random.Int64N(int64(l.last)))
		}
		return s
	}
	panic("the weights are more than their sum")
}

package simulation

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/reflector"
)

// lot is a deed with its probability weight and maximum duration.
type lot struct {
	do     Deed
	weight int
	last   time.Duration
	in     func(World) bool // the worlds in which the deed makes sense; nil means all
}

// writesAlone reports whether nothing but the schedule's steps writes.
func writesAlone(w World) bool { return !w.Reconciles && w.Candidates == 0 }

// polls reports whether every informer can get its initial state without a watch.
func polls(w World) bool {
	return !slices.ContainsFunc(w.Informers, func(f Form) bool { return f.Initial == reflector.WatchList })
}
func heavy(w World) bool    { return w.Weight > 0 }
func longs(w World) bool    { return w.History >= 400 }
func borrows(w World) bool  { return w.Loans }
func copies(w World) bool   { return w.Reconciles }
func elects(w World) bool   { return w.Candidates > 0 }
func backlogs(w World) bool { return w.Backlog }
func shapes(w World) bool {
	return slices.ContainsFunc(w.Informers, func(f Form) bool { return f.Of == Widgets })
}

var lots = []lot{
	{"burst", 14, 0, nil},
	{"put", 8, 0, nil},
	{"delete", 3, 0, nil},
	{"replace", 3, 0, nil},
	{"pass", 10, 40 * time.Second, nil},
	{"fault", 16, 90 * time.Second, nil},
	{"compact", 4, 0, nil},
	{"restart", 4, 0, nil},
	{"down", 3, 0, nil},
	{"up", 5, 0, nil},
	{"lag", 2, 60 * time.Second, nil},
	{"backup", 2, 0, nil},
	{"restore", 1, 0, nil},
	{"upgrade", 1, 0, nil},
	{"access", 3, 0, nil},
	{"definition", 2, 0, nil},
	{"reshape", 4, 0, shapes},
	{"link", 12, 20 * time.Second, nil},
	{"change", 3, 0, nil},
	{"toggle", 4, 0, nil},
	{"join", 4, 0, nil},
	{"leave", 2, 0, nil},
	{"mood", 4, 0, nil},
	{"namespaces", 3, 0, nil},
	{"await", 4, 0, nil},
	{"reconcile", 6, 0, copies},
	{"stop copier", 3, 0, copies},
	{"candidate", 6, 0, elects},
	{"steal copies", 3, 0, copies},
	{"isolate", 4, 3 * time.Second, elects},
	{"rewind", 1, 0, writesAlone},
	{"refuse", 1, 0, polls},
	{"freeze", 1, 0, nil},
	{"block", 3, 90 * time.Second, nil},
	{"trickle", 8, 0, heavy},
	{"storm", 3, 0, longs},
	{"borrow", 8, 0, borrows},
	{"give back", 8, 0, borrows},
	{"restart factory", 3, 0, borrows},
	{"ask", 12, 5 * time.Second, backlogs},
	{"hurry", 2, 0, backlogs},
	{"give up", 6, 0, backlogs},
	{"drain", 3, 0, backlogs},
}

// Draw returns the schedule for a seed.
func Draw(seed uint64) Schedule {
	random := rand.New(rand.NewPCG(seed, 1))
	s := Schedule{Seed: seed, World: drawWorld(random)}
	packed := rand.New(rand.NewPCG(seed, 2)) // a separate random source, so that the rest of the schedule does not change
	for i := range s.World.Informers {
		s.World.Informers[i].Packed = packed.IntN(3) == 0
	}
	transformed := rand.New(rand.NewPCG(seed, 3))
	for i := range s.World.Informers {
		s.World.Informers[i].Transformed = transformed.IntN(4) == 0
		s.World.Informers[i].Snapshot = transformed.IntN(3) == 0
	}
	here := slices.DeleteFunc(slices.Clone(lots), func(l lot) bool { return l.in != nil && !l.in(s.World) })
	for range 20 + random.IntN(30) {
		s.Steps = append(s.Steps, drawStep(random, here))
	}
	return s
}

func drawWorld(random *rand.Rand) World {
	w := World{
		Objects:    random.IntN(names),
		History:    5 + random.IntN(100),
		Bookmarks:  time.Duration(1+random.IntN(60)) * time.Second,
		Streams:    apiservertest.StreamingLists(random.IntN(3)),
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
	w.Drift = random.IntN(2) == 0
	w.Loans = random.IntN(6) == 0
	w.Backlog = random.IntN(5) == 0
	if random.IntN(3) == 0 {
		w.FirstRV = 950 + random.Uint64N(50) // so that versions gain a digit
	}
	if random.IntN(12) == 0 {
		w.Weight, w.Objects = 4000, names
	}
	if random.IntN(6) == 0 {
		w.History = 400
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
	if f.Initial == reflector.WatchList && w.Streams == apiservertest.StreamingListsRefused {
		f.Initial = reflector.Auto // otherwise it would always, and rightly, be rejected
	}
	if random.IntN(2) == 0 {
		f.StreamTimeout = time.Duration(15+random.IntN(60)) * time.Second
	}
	if random.IntN(6) == 0 {
		f.Slow = 300 * time.Millisecond
	}
	if random.IntN(3) == 0 {
		f.Namespaces = 1 + random.IntN(allOfThem)
	}
	return f
}

func drawStep(random *rand.Rand, lots []lot) Step {
	total := 0
	for _, l := range lots {
		total += l.weight
	}
	n := random.IntN(total)
	for _, l := range lots {
		if n -= l.weight; n >= 0 {
			continue
		}
		s := Step{Do: l.do, Who: random.IntN(100), N: random.IntN(1000)}
		// Some steps follow each other quickly and others do not, but no two happen at the same instant.
		s.Wait = time.Duration(1 + random.IntN(3_000_000))
		if random.IntN(2) == 0 {
			s.Wait += time.Duration(random.ExpFloat64() * float64(2*time.Second))
		}
		if l.last > 0 {
			s.For = time.Duration(random.Int64N(int64(l.last)))
		}
		return s
	}
	panic("unreachable: the weights add up to total")
}

package simulation

import (
	"slices"
	"time"
)

// Shrink returns the smallest schedule it can find for which fails returns true. It must do so for s. Shrink
// removes steps, at first many at a time, then elements of the world, and finally reduces numbers.
func Shrink(s Schedule, fails func(Schedule) bool) Schedule {
	for {
		before := s.size()
		s = shrinkSteps(s, fails)
		s = shrinkWorld(s, fails)
		s = shrinkNumbers(s, fails)
		if s.size() == before {
			return s
		}
	}
}

// size is the quantity that [Shrink] reduces.
func (s Schedule) size() int {
	n := len(s.Steps)*1000 + len(s.World.Informers)*5000 + s.World.Candidates*1000 + s.World.Objects
	for _, there := range []bool{s.World.Reconciles, s.World.Backlog, s.World.Loans} {
		if there {
			n += 5000
		}
	}
	n += s.World.Weight
	for _, step := range s.Steps {
		if step.For != 0 {
			n += 10
		}
		n += step.Who + step.N
	}
	return n
}

func shrinkSteps(s Schedule, fails func(Schedule) bool) Schedule {
	for part := (len(s.Steps) + 1) / 2; part >= 1; part /= 2 {
		for at := 0; at < len(s.Steps); {
			less := s
			less.Steps = slices.Delete(slices.Clone(s.Steps), at, min(at+part, len(s.Steps)))
			if fails(less) {
				s = less
			} else {
				at += part
			}
		}
	}
	return s
}

func shrinkWorld(s Schedule, fails func(Schedule) bool) Schedule {
	for at := 0; at < len(s.World.Informers); {
		less := s
		less.World.Informers = slices.Delete(slices.Clone(s.World.Informers), at, at+1)
		if fails(less) {
			s = less
		} else {
			at++
		}
	}
	changes := []func(*World){
		func(w *World) { w.Candidates = 0 },
		func(w *World) { w.Reconciles = false },
		func(w *World) { w.Backlog = false },
		func(w *World) { w.Loans = false },
		func(w *World) { w.Drift = false },
		func(w *World) { w.Weight = 0 },
		func(w *World) { w.FirstRV = 0 },
		func(w *World) { w.Fronts, w.Lag = 0, 0 },
		func(w *World) { w.Garbled = false },
		func(w *World) { w.Objects = 0 },
		func(w *World) { w.Objects /= 2 },
		func(w *World) { w.Streams = 0 },
		func(w *World) { w.Bookmarks = time.Minute },
		func(w *World) { w.History = 1000 },
	}
	for n := range s.World.Informers {
		changes = append(changes,
			func(w *World) {
				w.Informers[n] = Form{Of: w.Informers[n].Of, WatchTimeout: w.Informers[n].WatchTimeout}
			},
			func(w *World) { w.Informers[n].Compact = false },
			func(w *World) { w.Informers[n].Slow = 0 },
			func(w *World) { w.Informers[n].StreamTimeout = 0 },
			func(w *World) { w.Informers[n].CBOR = false },
			func(w *World) { w.Informers[n].Selected = false },
			func(w *World) { w.Informers[n].Transformed = false },
			func(w *World) { w.Informers[n].Snapshot = false },
			func(w *World) { w.Informers[n].Namespaces = 0 },
			func(w *World) { w.Informers[n].PageSize = 0 },
			func(w *World) { w.Informers[n].Of = Pods },
		)
	}
	for _, change := range changes {
		less := s
		less.World.Informers = slices.Clone(s.World.Informers)
		change(&less.World)
		if fails(less) {
			s = less
		}
	}
	return s
}

func shrinkNumbers(s Schedule, fails func(Schedule) bool) Schedule {
	for at := range s.Steps {
		for _, change := range []func(*Step){
			func(x *Step) { x.For = 0 },
			func(x *Step) { x.Who = 0 },
			func(x *Step) { x.N = 0 },
			func(x *Step) { x.N /= 2 },
			func(x *Step) { x.Wait = time.Millisecond },
		} {
			less := s
			less.Steps = slices.Clone(s.Steps)
			change(&less.Steps[at])
			if less.Steps[at] != s.Steps[at] && fails(less) {
				s = less
			}
		}
	}
	return s
}

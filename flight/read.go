package flight

import (
	"cmp"
	"slices"
	"time"

	"github.com/millrace-dev/millrace/object"
)

// Whose says what an entry or a status is about.
type Whose struct {
	Track int // a number, since several may have one name
	Role  Role
	Name  string
	Of    int `json:",omitzero"` // the track of the informer that a handler belongs to

	Informer string // the name of that informer
}

// Entry is an event and whose it is.
type Entry struct {
	Whose
	Event
	order int64 // of its moment
}

func byTime(a, b Entry) int { return cmp.Compare(a.order, b.order) }

// TrackStatus is one track seen from outside.
type TrackStatus struct {
	Whose
	Bytes  int // that its events take
	Stages []StageStatus
}

// Status is a recorder seen from outside at one moment.
type Status struct {
	Bytes  int    // that may be taken in all
	Lost   uint64 // events that had to go for newer ones
	Tracks []TrackStatus
}

func (t *track) whose() Whose {
	w := Whose{Track: t.number, Role: t.role, Name: t.name}
	if t.of != nil {
		w.Of, w.Informer = t.of.number, t.of.name
	}
	return w
}

// all are the tracks at one moment.
func (r *Recorder) all() []*track {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.tracks)
}

// Status returns how long stages took, and what memory is used for what. Tracks stand in
// the order in which they were made.
func (r *Recorder) Status() (s Status) {
	now := time.Now()
	for _, t := range r.all() {
		s.Tracks = append(s.Tracks, r.status(t, now))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s.Lost, s.Bytes = r.lost, r.pieces*pieceSize
	return s
}

func (r *Recorder) status(t *track, now time.Time) TrackStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := TrackStatus{Whose: t.whose(), Stages: t.stages.status(now)}
	for _, p := range t.pieces {
		s.Bytes += p.used
	}
	return s
}

// records is a copy of what a track holds.
func (r *Recorder) records(t *track) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b []byte
	for _, p := range t.pieces {
		b = append(b, p.bytes[:p.used]...)
	}
	return b
}

// Entries returns the events that are still held and that want, if it is not nil, wants,
// in the order of time, also where the clock was put back meanwhile.
func (r *Recorder) Entries(want func(*Entry) bool) []Entry {
	return r.entries(func(*track) bool { return true }, want)
}

// entries are those of some tracks.
func (r *Recorder) entries(of func(*track) bool, want func(*Entry) bool) (entries []Entry) {
	for _, t := range r.all() {
		if !of(t) {
			continue
		}
		e := Entry{Whose: t.whose()}
		for rest := r.records(t); len(rest) > 0; {
			rest = readRecord(rest, &e)
			if want == nil || want(&e) {
				entries = append(entries, e)
			}
		}
	}
	slices.SortStableFunc(entries, byTime)
	return entries
}

// Timeline returns what is known of one object, in the order of time: what happened to
// itself, and to requests of its key. A handler that was called for several changes at a
// stretch has one entry for all of them. Informer, if it is not empty, says whose changes
// are meant (see Names): objects of several types may have one key.
func (r *Recorder) Timeline(informer string, key object.Key) []Entry {
	type place struct {
		track    int
		position uint64
	}
	meant := func(t *track) bool {
		switch {
		case t.role == Handler && t.of != nil:
			t = t.of
		case t.role != Informer && t.role != Handler:
			return true
		}
		return informer == "" || Names(informer, t.name)
	}
	var places []place // of the object's changes
	r.entries(meant, func(e *Entry) bool {
		if e.Role == Informer && e.Kind == Applied && e.Key == key {
			places = append(places, place{e.Track, e.Position})
		}
		return false
	})
	return r.entries(meant, func(e *Entry) bool {
		if e.Kind != Told || e.Key == key {
			return e.Key == key
		}
		return slices.ContainsFunc(places, func(p place) bool {
			return p.track == e.Of && p.position > e.After && p.position <= e.Position
		})
	})
}

// Busy is a key, and how many changes or reconciles of it the recorder holds.
type Busy struct {
	Whose
	Key   object.Key
	Count int
}

// Busiest returns the keys with the most changes and reconciles since then, at most n, the
// busiest first.
func (r *Recorder) Busiest(since time.Time, n int) []Busy {
	type which struct {
		Whose
		key object.Key
	}
	counts := make(map[which]int)
	for _, e := range r.Entries(func(e *Entry) bool { return (e.Kind == Applied || e.Kind == Done) && !e.At.Before(since) }) {
		counts[which{e.Whose, e.Key}]++
	}
	busy := make([]Busy, 0, len(counts))
	for w, count := range counts {
		busy = append(busy, Busy{w.Whose, w.key, count})
	}
	slices.SortFunc(busy, func(a, b Busy) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Track, b.Track),
			cmp.Compare(a.Key.Namespace, b.Key.Namespace), cmp.Compare(a.Key.Name, b.Key.Name))
	})
	return busy[:min(max(n, 0), len(busy))]
}

package flight

import (
	"cmp"
	"slices"
	"time"

	"github.com/millrace-dev/millrace/object"
)

// Whose identifies the track that an entry or a status belongs to.
type Whose struct {
	Track int // a number, because several tracks may share a name
	Role  Role
	Name  string
	Of    int `json:",omitzero"` // the track of a handler's informer

	Informer string // that informer's name
}

// Entry is an event with its track.
type Entry struct {
	Whose
	Event
	order int64 // chronological; see moment.order
}

func byTime(a, b Entry) int { return cmp.Compare(a.order, b.order) }

// TrackStatus is a track's state.
type TrackStatus struct {
	Whose
	Bytes  int // size of its events in bytes
	Stages []StageStatus
}

// Status is a snapshot of a recorder.
type Status struct {
	Bytes  int    // capacity
	Lost   uint64 // events overwritten by newer ones
	Tracks []TrackStatus
}

func (t *track) whose() Whose {
	w := Whose{Track: t.number, Role: t.role, Name: t.name}
	if t.of != nil {
		w.Of, w.Informer = t.of.number, t.of.name
	}
	return w
}

// all returns a copy of the track list.
func (r *Recorder) all() []*track {
	tracks, _ := r.allAndEnded()
	return tracks
}

// allAndEnded returns a copy of the track list, and the number of records ever written to tracks that were dropped.
func (r *Recorder) allAndEnded() (tracks []*track, ended uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.tracks), r.ended
}

// Status returns how long stages took and how memory is used. Tracks are in the order they were created.
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

// records returns a copy of a track's records.
func (r *Recorder) records(t *track) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b []byte
	for _, p := range t.pieces {
		b = append(b, p.bytes[:p.used]...)
	}
	return b
}

// Entries returns the recorded events for which want returns true, in chronological order, even if the clock
// was set back. A nil want selects all events.
func (r *Recorder) Entries(want func(*Entry) bool) []Entry {
	return r.entries(func(*track) bool { return true }, want)
}

// entries returns the events from the tracks for which of returns true.
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

// Timeline returns the known events for one object, in chronological order: its own events, and the events of
// requests with its key. If a handler was called for several changes in a row, the calls share one entry.
// Objects of different types may have the same key, so informer, if not empty, selects the informer (see
// Names).
func (r *Recorder) Timeline(informer string, key object.Key) []Entry {
	meant := func(t *track) bool {
		switch {
		case t.role == Handler && t.of != nil:
			t = t.of
		case t.role != Informer && t.role != Handler:
			return true
		}
		return informer == "" || Names(informer, t.name)
	}
	changes := map[int][]uint64{} // positions of the object's changes, by track
	r.entries(meant, func(e *Entry) bool {
		if e.Role == Informer && e.Kind == Applied && e.Key == key {
			changes[e.Track] = append(changes[e.Track], e.Position)
		}
		return false
	})
	for _, positions := range changes {
		slices.Sort(positions)
	}
	return r.entries(meant, func(e *Entry) bool {
		if e.Kind != Told || e.Key == key {
			return e.Key == key
		}
		of := changes[e.Of]
		next, _ := slices.BinarySearch(of, e.After+1)
		return next < len(of) && of[next] <= e.Position
	})
}

// Busy is a key with the number of changes or reconciles recorded for it.
type Busy struct {
	Whose
	Key   object.Key
	Count int
}

// Busiest returns up to n keys with the most changes and reconciles since the given time, busiest first.
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

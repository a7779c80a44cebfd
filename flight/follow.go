package flight

import (
	"encoding/binary"
	"slices"
)

// Follower reads a recorder's events as they are recorded. The recorder never waits for it. Events that are
// overwritten before the Follower reads them are counted. A Follower is not safe for concurrent use.
type Follower struct {
	recorder *Recorder
	at       map[int]uint64 // number of records seen so far in each track
	ended    uint64         // number of records in dropped tracks at the last call
}

// Follow returns a follower for the events recorded from now on.
func (r *Recorder) Follow() *Follower {
	f := &Follower{recorder: r, at: make(map[int]uint64)}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.tracks {
		f.at[t.number] = t.records
	}
	f.ended = r.ended
	return f
}

// Next returns the events recorded since the last call for which want returns true, in chronological order. A
// nil want selects all events. If there are more than most, Next returns the newest. lost counts the events
// that were overwritten before the call, wanted or not, and the wanted events beyond most.
func (f *Follower) Next(want func(*Entry) bool, most int) (entries []Entry, lost uint64) {
	at := make(map[int]uint64, len(f.at))
	tracks, ended := f.recorder.allAndEnded()
	lost, f.ended = ended-f.ended, ended
	for _, seen := range f.at { // in dropped tracks; the loop below takes back those in tracks that are left
		lost -= seen
	}
	for _, t := range tracks {
		e := Entry{Whose: t.whose()}
		seen := f.at[t.number]
		records, before, all := f.recorder.since(t, seen)
		at[t.number] = all
		lost += before
		for len(records) > 0 {
			records = readRecord(records, &e)
			if want == nil || want(&e) {
				entries = append(entries, e)
			}
		}
	}
	f.at = at
	slices.SortStableFunc(entries, byTime)
	if more := len(entries) - max(most, 0); more > 0 {
		entries, lost = entries[more:], lost+uint64(more)
	}
	return entries, lost
}

// since returns a copy of a track's records after the first n, the number of records before them, and
// the total number of records.
func (r *Recorder) since(t *track, n uint64) (records []byte, before, all uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before = max(n, t.records)
	for _, p := range t.pieces {
		if end := p.first + uint64(p.records); end <= n {
			continue
		}
		held := p.bytes[:p.used]
		at := p.first
		for ; at < n; at++ {
			held = held[binary.LittleEndian.Uint16(held):]
		}
		before = min(before, at)
		records = append(records, held...)
	}
	return records, before, t.records
}

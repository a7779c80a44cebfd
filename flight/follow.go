package flight

import (
	"encoding/binary"
	"slices"
)

// Follower reads a recorder's events as they come, without anybody waiting for it: what is
// gone before it reads is counted. It is not safe for concurrent use.
type Follower struct {
	recorder *Recorder
	at       map[int]uint64 // how many records of each track it has seen
}

// Follow returns a follower of what is recorded from now on.
func (r *Recorder) Follow() *Follower {
	f := &Follower{recorder: r, at: make(map[int]uint64)}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.tracks {
		f.at[t.number] = t.records
	}
	return f
}

// Next returns what was recorded since the last call and that want, if it is not nil,
// wants, in the order of time; at most that many, the newest of them. Lost counts what it
// could not return: events that were gone already, whether wanted or not, and wanted ones
// beyond most.
func (f *Follower) Next(want func(*Entry) bool, most int) (entries []Entry, lost uint64) {
	at := make(map[int]uint64, len(f.at))
	for _, t := range f.recorder.all() {
		e := Entry{Whose: t.whose()}
		seen := f.at[t.number]
		records, before, all := f.recorder.since(t, seen)
		at[t.number] = all
		lost += before - seen
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

// since is a copy of the records of a track that follow the first n, how many there have
// been before them, and in all.
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

package flight

import (
	"io"
	"runtime"
	"slices"
	"sync"
	"time"
)

// pieceSize is what a track gets at a time. It has room for any record.
const pieceSize = 2 << 10

const _ = uint(pieceSize - maxRecord)

// Recorder has the memory of all tracks.
type Recorder struct {
	mu     sync.Mutex // guards all below, and the pieces of tracks
	pieces int        // there may be in all
	free   int        // of them, not made yet
	tracks []*track   // in the order of their numbers
	spare  spare      // those of them that have pieces
	made   int        // tracks ever
	lost   uint64     // records
	clock  uint64     // counts records

	began   time.Time       // never changes; zero only where New did not make it
	scratch [maxRecord]byte // of Record
	crash   io.Writer       // nil: standard error

	ending sync.Mutex // held while the last events are written; taken before mu
}

// DefaultSize is the memory of the process's recorder, in bytes.
const DefaultSize = 1 << 20

// process is the recorder of all that name no other.
var process = New(DefaultSize)

// Process returns the recorder that is used where no other is named.
func Process() *Recorder { return process }

// New returns a recorder of so many bytes for events. With 0 it records nothing, not even
// how long stages take.
func New(size int) *Recorder {
	return &Recorder{began: time.Now(), pieces: max(size, 0) / pieceSize, free: max(size, 0) / pieceSize}
}

// Or returns r, or the process's recorder if r is nil.
func (r *Recorder) Or() *Recorder {
	if r == nil {
		return process
	}
	return r
}

// Resize gives the recorder so many bytes for events. The oldest are lost where that is
// less than before. With 0 nothing is recorded.
func (r *Recorder) Resize(size int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	held := 0
	for _, t := range r.tracks {
		held += len(t.pieces)
	}
	r.pieces = max(size, 0) / pieceSize
	for r.free = r.pieces - held; r.free < 0; r.free++ {
		r.reclaim()
	}
}

// Role says what a track is of.
type Role string

// Roles of tracks.
const (
	Informer   Role = "informer"
	Handler    Role = "handler"
	Controller Role = "controller"
	Queue      Role = "queue"
)

// Label says what a track is of.
type Label struct {
	Role Role
	Name string
	Of   *Track // the informer of a handler, if it is of the same recorder
}

// Track is what one informer, handler, queue or controller records.
type Track struct {
	*track
	recorder *Recorder
}

// track is what the recorder has of a Track.
type track struct {
	number   int
	role     Role
	name     string
	of       *track
	pieces   []*piece
	records  uint64 // ever
	written  uint64 // when, by the recorder's clock
	orphaned bool   // the Track is gone
	rank     int    // its place in spare, if it is ranked
	ranked   bool
	seen     uint64 // what written was when it was ranked
	stages   stages
}

// piece holds records one after the other.
type piece struct {
	used    int
	first   uint64 // how many records the track had before
	records int
	bytes   [pieceSize]byte
}

// Track returns a new track. It needs no end: when nobody has it any more, its events are
// the first to go.
func (r *Recorder) Track(l Label) *Track {
	t := &track{role: l.Role, name: l.Name}
	if l.Of != nil && l.Of.recorder == r {
		t.of = l.Of.track
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.made++
	t.number = r.made
	r.tracks = append(r.tracks, t)
	handle := &Track{track: t, recorder: r}
	runtime.AddCleanup(handle, r.orphan, t)
	return handle
}

// orphan notes that nobody will record on t. Its events stay until there is need of their
// memory; how long its stages took is forgotten.
func (r *Recorder) orphan(t *track) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t.orphaned, t.stages = true, stages{}
	r.spare.add(t)
	r.drop(t)
}

// drop forgets a track that is orphaned and has no events. It is called under mu.
func (r *Recorder) drop(t *track) {
	if t.orphaned && len(t.pieces) == 0 {
		if at, found := slices.BinarySearchFunc(r.tracks, t.number, func(each *track, n int) int { return each.number - n }); found {
			r.tracks = slices.Delete(r.tracks, at, at+1)
		}
	}
}

// Record records e, and changes nothing in it. A zero At is now.
func (t *Track) Record(e *Event) {
	if t == nil {
		return
	}
	at := e.At
	if at.IsZero() {
		at = time.Now()
	}
	t.record(e, since(t.recorder.began, at))
}

func (t *Track) record(e *Event, at moment) {
	r := t.recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pieces == 0 {
		return
	}
	r.write(t.track, appendRecord(r.scratch[:0], e, at))
	t.stages.observe(e, at.wall)
}

// write is called under mu.
func (r *Recorder) write(t *track, record []byte) {
	last := len(t.pieces) - 1
	if last < 0 || t.pieces[last].used+len(record) > pieceSize {
		p := r.piece()
		p.first = t.records
		t.pieces = append(t.pieces, p)
		r.spare.add(t)
		last = len(t.pieces) - 1
	}
	p := t.pieces[last]
	p.used += copy(p.bytes[p.used:], record)
	p.records++
	t.records++
	r.clock++
	t.written = r.clock
}

// piece returns an empty piece.
func (r *Recorder) piece() *piece {
	if r.free > 0 {
		r.free--
		return new(piece)
	}
	p := r.reclaim()
	p.used, p.records = 0, 0
	return p
}

// reclaim takes the oldest piece of the track that can spare it best. It is called where
// some track has one.
func (r *Recorder) reclaim() *piece {
	from := r.spare.best()
	p := from.pieces[0]
	from.pieces = slices.Delete(from.pieces, 0, 1)
	r.spare.add(from)
	r.lost += uint64(p.records)
	r.drop(from)
	return p
}

package flight

import (
	"io"
	"runtime"
	"slices"
	"sync"
	"time"
)

// pieceSize is the amount of memory allocated to a track at a time. Any record fits.
const pieceSize = 2 << 10

const _ = uint(pieceSize - maxRecord)

// Recorder owns the memory of all tracks.
type Recorder struct {
	mu     sync.Mutex // guards the fields below, and the pieces of tracks
	pieces int        // total number allowed
	free   int        // pieces not allocated yet
	tracks []*track   // ordered by number
	spare  spare      // tracks that have pieces
	made   int        // number of tracks ever created
	lost   uint64     // number of lost records
	ended  uint64     // number of records ever written to the tracks that were dropped
	clock  uint64     // number of records ever written

	began   time.Time       // immutable; zero only if the recorder was not created by New
	scratch [maxRecord]byte // used by Record
	crash   io.Writer       // nil means standard error

	ending sync.Mutex // held while the last events are written; locked before mu
}

// DefaultSize is the size of the process's default recorder, in bytes.
const DefaultSize = 1 << 20

// process is the default recorder.
var process = New(DefaultSize)

// Process returns the process's default recorder.
func Process() *Recorder { return process }

// New returns a recorder with size bytes of memory for events. If size is 0, it records nothing, not even how
// long stages take.
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

// Resize changes the recorder's size to size bytes. If it shrinks, the oldest events are lost. If size is 0,
// nothing is recorded.
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

// Role is the kind of component that a track belongs to.
type Role string

// Roles of tracks.
const (
	Informer   Role = "informer"
	Handler    Role = "handler"
	Controller Role = "controller"
	Queue      Role = "queue"
)

// Label describes the component that a track belongs to.
type Label struct {
	Role Role
	Name string
	Of   *Track // a handler's informer, if it uses the same recorder
}

// Track records the events of one informer, handler, queue or controller.
type Track struct {
	*track
	recorder *Recorder
}

// track is the recorder's side of a Track.
type track struct {
	number   int
	role     Role
	name     string
	of       *track
	pieces   []*piece
	records  uint64 // number ever written
	written  uint64 // value of the recorder's clock at the last record
	orphaned bool   // the Track was garbage-collected
	rank     int    // index in spare, if ranked
	ranked   bool
	seen     uint64 // the value of written when it was ranked
	stages   stages
}

// piece contains consecutive records.
type piece struct {
	used    int
	first   uint64 // number of records in the track before this piece
	records int
	bytes   [pieceSize]byte
}

// Track returns a new track. It does not have to be closed: when it becomes unreachable, its events are
// the first to be overwritten.
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

// orphan records that a Track has become unreachable. The track keeps its events until their memory is
// needed, but not its stage times.
func (r *Recorder) orphan(t *track) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t.orphaned, t.stages = true, stages{}
	r.spare.add(t)
	r.drop(t)
}

// drop removes an orphaned track without events. The caller must hold mu.
func (r *Recorder) drop(t *track) {
	if t.orphaned && len(t.pieces) == 0 {
		if at, found := slices.BinarySearchFunc(r.tracks, t.number, func(each *track, n int) int { return each.number - n }); found {
			r.tracks = slices.Delete(r.tracks, at, at+1)
			r.ended += t.records
		}
	}
}

// Record records e without modifying it. A zero At means now.
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

// write appends a record to t. The caller must hold mu.
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

// reclaim takes the oldest piece of the track that can best spare one. At least one track must have a piece.
func (r *Recorder) reclaim() *piece {
	from := r.spare.best()
	p := from.pieces[0]
	from.pieces = slices.Delete(from.pieces, 0, 1)
	r.spare.add(from)
	r.lost += uint64(p.records)
	r.drop(from)
	return p
}

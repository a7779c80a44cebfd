package apiservertest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/millrace-dev/millrace/object"
)

// Load answers the lists and watches of one resource from bytes that were
// encoded beforehand, as fast as the connection takes them: it is made for
// measuring clients. A list shows all objects, in the order of their keys, as every API
// server does. A watch goes through a ring of
// MODIFIED events again and again, each with a higher resource version than
// the one before, until it has sent Events of them. Selectors of labels and fields,
// limits and faults of frames are ignored, and every watch has a history of its own. The one
// limit that holds is 1: whoever asks for one object wants to know the version. With
// Options.ShardSelectors it shows of objects and events what the request's shardSelector
// chooses, encoded anew for each selector and kept until Reset. Put it into Options.Load.
//
// Where Held is set, the watches wait for Play, which says how many events
// there are and how fast they come. Expire lets every version so far expire, so
// that clients list anew; Reset goes back to the beginning.
type Load struct {
	opts  LoadOptions
	order []int // of the objects in a list

	mu       sync.Mutex // guards what follows
	bodies   map[loadView]*loadBody
	expired  bool
	played   LoadPlay
	moved    chan struct{} // closed and made anew when expired or played change
	listedAt time.Time
}

// LoadOptions say what a Load sends.
type LoadOptions struct {
	// Resource is what the objects are; Builtin has the usual ones.
	Resource Resource

	// Objects is how many there are, and New makes the i-th. Names must
	// differ; the resource version is overwritten.
	Objects int
	New     func(i int) object.Object

	// Change alters a copy of the i-th object for its MODIFIED event; nil
	// changes nothing but the resource version.
	Change func(obj object.Object, i int)

	// Ring is how many different events there are; the number of objects if
	// zero, or if it is larger.
	Ring int

	// Events is how many events each watch sends before it falls silent;
	// endless if zero.
	Events int64

	// Held makes watches wait for Play instead of beginning at once.
	Held bool

	// Changed is how many of the objects differ after Expire; they are spread
	// evenly.
	Changed int

	// Afresh makes the objects of a streaming list anew for each watch, while it is sent, and
	// keeps none: for more objects than the server could hold.
	Afresh bool

	// Stamp gives each changed object the annotation SentAnnotation.
	Stamp bool
}

// LoadPlay is what the watches of a Load that is Held send.
type LoadPlay struct {
	// Events is how many of them each watch sends.
	Events int64

	// PerSecond is how fast; as fast as the connection takes them if zero.
	PerSecond float64
}

// SentAnnotation tells, in nanoseconds since 1970, when an event of a Load
// with Stamp was handed to the connection.
const SentAnnotation = "millrace.dev/sent"

const (
	// loadRV is the version of the first object of a load. All versions from
	// it on have ten digits, as long as there are fewer than nine thousand
	// million events, so that one can be written over another.
	loadRV    = 1_000_000_000
	rvDigits  = 10
	maxLoadRV = 9_999_999_999

	// expiredGap is how many versions lie between those of before and of after
	// Expire: more than any watch has sent until then.
	expiredGap = 1_000_000_000

	// loadMark stands where the version of an event is to be written; it is
	// itself a version of ten digits, and no object may contain it otherwise.
	loadMark = 9_182_736_455

	// sentMark stands where the time of sending is to be written.
	sentMark = "8182736455463728190"

	// loadChunk is how many bytes go out in one write: enough that the cost
	// of the write is small against that of the bytes, little enough to stay
	// in the processor's cache.
	loadChunk = 64 << 10
)

// loadView is what a client gets to see of a Load.
type loadView struct {
	format  format
	expired bool
	shard   string // the shardSelector; empty for everything
}

// loadBody is everything a Load sends in one view.
type loadBody struct {
	shard *shardSelector

	once sync.Once
	list []byte
	err  error

	firstOnce sync.Once
	first     []byte // a list of the first object alone
	firstErr  error

	ringOnce sync.Once
	ring     []loadFrame
	ringErr  error

	addedOnce sync.Once
	added     []byte // ADDED events of all objects
	addedErr  error
}

// loadFrame is an event, and where in it the resource version and the time of
// sending stand.
type loadFrame struct {
	bytes  []byte
	rvAt   int
	sentAt int // -1 without Stamp
}

// NewLoad checks the options, and makes each object once to learn its key. Objects are made
// and encoded with the first request that needs them in a format, and not kept.
func NewLoad(opts LoadOptions) (*Load, error) {
	if opts.Objects <= 0 || opts.New == nil {
		return nil, fmt.Errorf("load: Objects and New must be set")
	}
	if opts.Changed < 0 || opts.Changed > opts.Objects {
		return nil, fmt.Errorf("load: %d of %d objects cannot change", opts.Changed, opts.Objects)
	}
	if err := opts.Resource.complete(); err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	if opts.Ring <= 0 || opts.Ring > opts.Objects {
		opts.Ring = opts.Objects
	}
	keys, order := make([]string, opts.Objects), make([]int, opts.Objects)
	for i := range order {
		keys[i], order[i] = opts.Resource.pathOf(object.KeyOf(opts.New(i))), i
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(keys[a], keys[b]) })
	return &Load{opts: opts, order: order, bodies: map[loadView]*loadBody{}, moved: make(chan struct{})}, nil
}

// Resource is what the load serves.
func (l *Load) Resource() object.GVR { return l.opts.Resource.GVR }

// ListRV is the resource version of the list; the first event has the next.
func (l *Load) ListRV() string {
	expired, _, _ := l.state()
	return strconv.FormatUint(l.listRV(expired), 10)
}

// listRV makes room after Expire for the changed objects and one more: the
// list is newer even if no object is.
func (l *Load) listRV(expired bool) uint64 {
	rv := loadRV + uint64(l.opts.Objects)
	if expired {
		rv += expiredGap + uint64(l.opts.Changed) + 1
	}
	return rv
}

// Play lets each watch send p.Events more than it was allowed before.
func (l *Load) Play(p LoadPlay) {
	l.move(func() { l.played = LoadPlay{Events: l.played.Events + p.Events, PerSecond: p.PerSecond} })
}

// Expire ends the watches with 410 and lets lists show the objects as they are
// after the change. What was played does not count for the watches that follow.
func (l *Load) Expire() {
	l.move(func() { l.expired, l.played = true, LoadPlay{} })
}

// Reset undoes Expire and Play. It must be called when no watch is open.
func (l *Load) Reset() {
	l.move(func() {
		l.expired, l.played = false, LoadPlay{}
		maps.DeleteFunc(l.bodies, func(v loadView, _ *loadBody) bool { return v.shard != "" })
	})
}

// ListedAt is when the last list, streaming or not, was asked for.
func (l *Load) ListedAt() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.listedAt
}

func (l *Load) listing() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listedAt = time.Now()
}

func (l *Load) move(how func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	how()
	close(l.moved)
	l.moved = make(chan struct{})
}

func (l *Load) state() (expired bool, played LoadPlay, moved <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.expired, l.played, l.moved
}

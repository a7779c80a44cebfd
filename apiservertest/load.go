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

// Load serves lists and watches of one resource from pre-encoded bytes, as fast as the connection accepts
// them, to benchmark clients. A list returns all objects in key order, as on any API server. A watch cycles
// through a ring of MODIFIED events, each with a higher resource version than the previous one, until it
// has sent LoadOptions.Events events. Load ignores label and field selectors, limits and frame faults, and
// each watch has its own history. The only limit it honors is 1, because a client that asks for a single
// object is after the resource version. With Options.ShardSelectors, Load filters objects and events by the
// request's shardSelector, encoding them once per selector and caching the result until [Load.Reset]. Add
// it to Options.Loads.
//
// If Held is set, watches wait for [Load.Play], which sets how many events to send and how fast.
// [Load.Expire] expires all current versions, so clients relist. Reset restores the initial state.
type Load struct {
	opts  LoadOptions
	order []int // object order in a list

	mu       sync.Mutex // guards the fields below
	bodies   map[loadView]*loadBody
	expired  bool
	played   LoadPlay
	moved    chan struct{} // closed and replaced when expired or played changes
	listedAt time.Time
}

// LoadOptions are the options of [NewLoad].
type LoadOptions struct {
	// Resource is the resource to serve; [Builtin] returns the usual ones.
	Resource Resource

	// Objects is the number of objects, and New creates the i-th. Their names must be distinct; the
	// resource version is overwritten.
	Objects int
	New     func(i int) object.Object

	// Change modifies a copy of the i-th object for its MODIFIED event. If nil, only the resource version
	// changes.
	Change func(obj object.Object, i int)

	// Ring is the number of distinct events. The default is the number of objects, which is also
	// the maximum.
	Ring int

	// Events is the number of events that each watch sends before it goes silent. Zero means no
	// limit.
	Events int64

	// Held makes watches wait for Play.
	Held bool

	// Changed is the number of objects, spread evenly, that differ after [Load.Expire].
	Changed int

	// Afresh generates the objects of a streaming list separately for each watch as they are sent, and
	// keeps none of them. Use it if the objects do not fit in memory.
	Afresh bool

	// Stamp adds [SentAnnotation] to each changed object.
	Stamp bool
}

// LoadPlay sets the number and rate of the events that the watches of a held [Load] send.
type LoadPlay struct {
	// Events is the number of events for each watch.
	Events int64

	// PerSecond is the rate. Zero means as fast as the connection accepts them.
	PerSecond float64
}

// SentAnnotation is set by a [Load] with Stamp to the time, in nanoseconds since 1970, at which the event
// was written to the connection.
const SentAnnotation = "millrace.dev/sent"

const (
	// loadRV is the version of a load's first object. All later versions have ten digits too, for up to
	// nine billion events, so one version can be overwritten in place with another.
	loadRV    = 1_000_000_000
	rvDigits  = 10
	maxLoadRV = 9_999_999_999

	// expiredGap is the distance between the versions before and after Expire. It exceeds the number
	// of events that any watch can have sent by then.
	expiredGap = 1_000_000_000

	// loadMark is the placeholder for an event's version. It is itself a ten-digit version, and must
	// not occur anywhere else in the objects.
	loadMark = 9_182_736_455

	// sentMark is the placeholder for the send time.
	sentMark = "8182736455463728190"

	// loadChunk is the number of bytes sent per write: large enough to make the overhead of a write
	// negligible, and small enough for the data to stay in the CPU cache.
	loadChunk = 64 << 10
)

// loadView identifies the data seen by a client.
type loadView struct {
	format  format
	expired bool
	shard   string // the shardSelector; empty selects everything
}

// loadBody holds the encoded data of one view.
type loadBody struct {
	shard *shardSelector

	once sync.Once
	list []byte
	err  error

	firstOnce sync.Once
	first     []byte // a list with only the first object
	firstErr  error

	ringOnce sync.Once
	ring     []loadFrame
	ringErr  error

	addedOnce sync.Once
	added     []byte // ADDED events for all objects
	addedErr  error
}

// loadFrame is an event with the offsets of its resource version and send time.
type loadFrame struct {
	bytes  []byte
	rvAt   int
	sentAt int // -1 without Stamp
}

// NewLoad validates the options and creates each object once to determine its key. The objects are created
// again and encoded by the first request that needs them in a given format, after which Load keeps only the
// bytes.
func NewLoad(opts LoadOptions) (*Load, error) {
	if opts.Objects <= 0 || opts.New == nil {
		return nil, fmt.Errorf("load: Objects and New must be set")
	}
	if opts.Changed < 0 || opts.Changed > opts.Objects {
		return nil, fmt.Errorf("load: Changed must be between 0 and Objects: got %d of %d", opts.Changed, opts.Objects)
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

// loadOf returns the load of a resource, or nil.
func (o *Options) loadOf(resource object.GVR) *Load {
	for _, l := range o.Loads {
		if l.opts.Resource.GVR == resource {
			return l
		}
	}
	return nil
}

// Resource returns the resource that the load serves.
func (l *Load) Resource() object.GVR { return l.opts.Resource.GVR }

// ListRV returns the resource version of the list; the first event has the next version.
func (l *Load) ListRV() string {
	expired, _, _ := l.state()
	return strconv.FormatUint(l.listRV(expired), 10)
}

// After Expire, listRV leaves room for the changed objects and one more version, since the list is
// newer even if no object has changed.
func (l *Load) listRV(expired bool) uint64 {
	rv := loadRV + uint64(l.opts.Objects)
	if expired {
		rv += expiredGap + uint64(l.opts.Changed) + 1
	}
	return rv
}

// Play lets each watch send another p.Events events.
func (l *Load) Play(p LoadPlay) {
	l.move(func() { l.played = LoadPlay{Events: l.played.Events + p.Events, PerSecond: p.PerSecond} })
}

// Expire ends all watches with a 410; from then on, lists return the changed objects. Events left over
// from earlier calls to [Load.Play] are not sent on later watches.
func (l *Load) Expire() {
	l.move(func() { l.expired, l.played = true, LoadPlay{} })
}

// Reset undoes Expire and Play. No watch may be open.
func (l *Load) Reset() {
	l.move(func() {
		l.expired, l.played = false, LoadPlay{}
		maps.DeleteFunc(l.bodies, func(v loadView, _ *loadBody) bool { return v.shard != "" })
	})
}

// ListedAt returns the time of the last list request, streaming or not.
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

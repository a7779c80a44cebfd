package apiserver

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/object"
)

// Load answers the lists and watches of one resource from bytes that were
// encoded beforehand, as fast as the connection takes them: it is made for
// measuring clients. A list shows all objects. A watch goes through a ring of
// MODIFIED events again and again, each with a higher resource version than
// the one before, until it has sent Events of them. Selectors, limits and
// faults of frames are ignored, and every watch has a history of its own. Put
// it into Options.Load.
type Load struct {
	opts    LoadOptions
	bodies  [formats]loadBody
	listed  []*version
	changed []*version
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
}

const (
	// loadRV is the version of the first object of a load. All versions from
	// it on have ten digits, as long as there are fewer than nine thousand
	// million events, so that one can be written over another.
	loadRV    = 1_000_000_000
	rvDigits  = 10
	maxLoadRV = 9_999_999_999

	// loadMark stands where the version of an event is to be written; it is
	// itself a version of ten digits, and no object may contain it otherwise.
	loadMark = 9_182_736_455

	// loadChunk is how many bytes go out in one write: enough that the cost
	// of the write is small against that of the bytes, little enough to stay
	// in the processor's cache.
	loadChunk = 64 << 10
)

// loadBody is everything a Load sends in one format.
type loadBody struct {
	once  sync.Once
	list  []byte
	added []byte // ADDED events of all objects
	ring  []loadFrame
	err   error
}

// loadFrame is an event, and where in it the resource version stands.
type loadFrame struct {
	bytes []byte
	rvAt  int
}

// NewLoad makes the objects. They are encoded with the first request for each
// format.
func NewLoad(opts LoadOptions) (*Load, error) {
	if opts.Objects <= 0 || opts.New == nil {
		return nil, fmt.Errorf("load: Objects and New must be set")
	}
	if err := opts.Resource.complete(); err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	if opts.Ring <= 0 || opts.Ring > opts.Objects {
		opts.Ring = opts.Objects
	}
	l := &Load{opts: opts}
	for i := range opts.Objects {
		obj := opts.New(i)
		stripKind(obj)
		l.listed = append(l.listed, l.version(obj, loadRV+uint64(i)))
		if i < opts.Ring {
			changed := clone(obj)
			if opts.Change != nil {
				opts.Change(changed, i)
			}
			l.changed = append(l.changed, l.version(changed, loadMark))
		}
	}
	return l, nil
}

// ListRV is the resource version of the list; the first event has the next.
func (l *Load) ListRV() string { return strconv.FormatUint(l.listRV(), 10) }

func (l *Load) listRV() uint64 { return loadRV + uint64(l.opts.Objects) }

func (l *Load) version(obj object.Object, rv uint64) *version {
	obj.SetResourceVersion(strconv.FormatUint(rv, 10))
	path := l.opts.Resource.pathOf(object.KeyOf(obj))
	return &version{res: &l.opts.Resource, rv: rv, path: path, obj: obj}
}

// body encodes everything for one format, with the first request for it.
func (l *Load) body(c *call) (*loadBody, error) {
	b := &l.bodies[c.format]
	b.once.Do(func() { b.err = l.encode(c, b) })
	return b, b.err
}

func (l *Load) encode(c *call, b *loadBody) error {
	items := make([]listItem, 0, len(l.listed))
	for _, v := range l.listed {
		e, err := v.encode(c.format)
		if err != nil {
			return err
		}
		items = append(items, listItem{e.lead, e.item})
		b.added = appendFrame(b.added, c.format, watch.Added, e.body)
	}
	head, tail, err := c.listFrame(metav1.ListMeta{ResourceVersion: l.ListRV()}, items)
	if err != nil {
		return err
	}
	b.list = listBody(c.format, head, items, tail)
	mark := strconv.AppendUint(nil, loadMark, 10)
	for _, v := range l.changed {
		e, err := v.encode(c.format)
		if err != nil {
			return err
		}
		frame := appendFrame(nil, c.format, watch.Modified, e.body)
		at := bytes.Index(frame, mark)
		if at < 0 || at != bytes.LastIndex(frame, mark) {
			return fmt.Errorf("load: object %s contains %s, which marks the resource version", v.path, mark)
		}
		b.ring = append(b.ring, loadFrame{frame, at})
	}
	return nil
}

func (l *Load) list(c *call) error {
	b, err := l.body(c)
	if err != nil {
		return unclassified(err.Error())
	}
	c.w.Header().Set("Content-Type", c.format.mediaType())
	c.w.WriteHeader(http.StatusOK)
	for chunk := range slices.Chunk(b.list, loadChunk) {
		if _, err := c.w.Write(chunk); err != nil {
			return err
		}
	}
	return nil
}

func (l *Load) watch(c *call) error {
	opts, _, err := c.listOptions()
	if err != nil {
		return err
	}
	from, err := parseRV(opts.ResourceVersion)
	if err != nil {
		return unclassified(err.Error())
	}
	b, err := l.body(c)
	if err != nil {
		return unclassified(err.Error())
	}
	c.w.Header().Set("Content-Type", c.watchType())
	c.w.WriteHeader(http.StatusOK)
	ctx, cancel := context.WithTimeout(c.ctx, c.watchTimeout(opts))
	defer cancel()
	if opts.SendInitialEvents != nil && *opts.SendInitialEvents {
		if err := l.sendInitial(c, b, opts.AllowWatchBookmarks); err != nil {
			return err
		}
	}
	if err := l.stream(ctx, c, b.ring, max(from, l.listRV())); err != nil {
		return err
	}
	<-ctx.Done()
	return context.Cause(c.ctx) // nil after the timeout: an orderly end
}

// sendInitial sends all objects and the bookmark that ends them.
func (l *Load) sendInitial(c *call, b *loadBody, bookmark bool) error {
	for chunk := range slices.Chunk(b.added, loadChunk) {
		if _, err := c.w.Write(chunk); err != nil {
			return err
		}
	}
	if bookmark {
		obj := l.opts.Resource.New()
		obj.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
		e, err := l.version(obj, l.listRV()).encode(c.format)
		if err != nil {
			return err
		}
		if _, err := c.w.Write(appendFrame(nil, c.format, watch.Bookmark, e.body)); err != nil {
			return err
		}
	}
	return c.w.flush()
}

// stream sends the ring. An event costs a copy and ten digits; nothing else
// is done for it, and nothing is shared with other watches.
func (l *Load) stream(ctx context.Context, c *call, ring []loadFrame, rv uint64) error {
	left := l.opts.Events
	if left <= 0 {
		left = math.MaxInt64
	}
	buffer := make([]byte, 0, 2*loadChunk)
	for i := 0; left > 0 && rv < maxLoadRV; left-- {
		frame := &ring[i]
		if i++; i == len(ring) {
			i = 0
		}
		rv++
		at := len(buffer) + frame.rvAt
		buffer = append(buffer, frame.bytes...)
		digits, n := buffer[at:at+rvDigits], rv
		for d := rvDigits - 1; d >= 0; d-- {
			digits[d] = byte('0' + n%10)
			n /= 10
		}
		if len(buffer) < loadChunk && left > 1 {
			continue
		}
		if _, err := c.w.Write(buffer); err != nil {
			return err
		}
		buffer = buffer[:0]
		if ctx.Err() != nil {
			return context.Cause(c.ctx)
		}
	}
	return c.w.flush()
}

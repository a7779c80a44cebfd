package apiservertest

import (
	"bytes"
	"fmt"
	"iter"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/object"
)

// listed generates the objects in the list one by one.
func (l *Load) listed(expired bool) iter.Seq[*version] {
	return func(yield func(*version) bool) {
		for _, i := range l.order {
			obj, rv := l.opts.New(i), loadRV+uint64(i)
			stripKind(obj)
			if change := (i + 1) * l.opts.Changed / l.opts.Objects; expired && change != i*l.opts.Changed/l.opts.Objects {
				rv = loadRV + uint64(l.opts.Objects) + expiredGap + uint64(change)
				if l.opts.Change != nil {
					l.opts.Change(obj, i)
				}
			}
			if !yield(l.version(obj, rv)) {
				return
			}
		}
	}
}

// changed generates the ring's objects.
func (l *Load) changed() iter.Seq[*version] {
	return func(yield func(*version) bool) {
		for i := range l.opts.Ring {
			obj := l.opts.New(i)
			stripKind(obj)
			if l.opts.Change != nil {
				l.opts.Change(obj, i)
			}
			if l.opts.Stamp {
				annotations := map[string]string{SentAnnotation: sentMark}
				for k, v := range obj.GetAnnotations() {
					annotations[k] = v
				}
				obj.SetAnnotations(annotations)
			}
			if !yield(l.version(obj, loadMark)) {
				return
			}
		}
	}
}

func (l *Load) version(obj object.Object, rv uint64) *version {
	obj.SetResourceVersion(strconv.FormatUint(rv, 10))
	path := l.opts.Resource.pathOf(object.KeyOf(obj))
	return &version{res: &l.opts.Resource, rv: rv, path: path, obj: obj}
}

// body returns the data for a client with selector sel.
func (l *Load) body(c *call, expired bool, sel *shardSelector) *loadBody {
	view := loadView{c.format, expired, sel.String()}
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.bodies[view]
	if b == nil {
		b = &loadBody{shard: sel}
		l.bodies[view] = b
	}
	return b
}

// listBody returns the body of a list response.
func (l *Load) listBody(c *call, expired bool, sel *shardSelector) ([]byte, error) {
	b := l.body(c, expired, sel)
	b.once.Do(func() { b.list, b.err = l.encode(c, expired, sel, l.opts.Objects) })
	return b.list, b.err
}

// firstBody returns the body of the response to a list with limit 1.
func (l *Load) firstBody(c *call, expired bool, sel *shardSelector) ([]byte, error) {
	b := l.body(c, expired, sel)
	b.firstOnce.Do(func() { b.first, b.firstErr = l.encode(c, expired, sel, 1) })
	return b.first, b.firstErr
}

// encode encodes a list of the first n objects that match sel.
func (l *Load) encode(c *call, expired bool, sel *shardSelector, n int) ([]byte, error) {
	var items []listItem
	left := int64(0)
	for v := range l.listed(expired) {
		switch {
		case !sel.matches(v.obj):
			continue
		case len(items) == n:
			left++
			continue
		}
		e, err := v.encode(c.format)
		if err != nil {
			return nil, err
		}
		items = append(items, listItem{e.lead, e.item})
	}
	meta := listMeta{ListMeta: metav1.ListMeta{ResourceVersion: strconv.FormatUint(l.listRV(expired), 10)}}
	if left > 0 {
		meta.Continue, meta.RemainingItemCount = "more", &left // the token is never used
	}
	if sel != nil {
		meta.ShardInfo = &shardInfo{sel.String()}
	}
	head, tail, err := c.listFrame(meta, items)
	if err != nil {
		return nil, err
	}
	return listBody(c.format, head, items, tail), nil
}

// added returns the initial events of a streaming list.
func (l *Load) added(c *call, expired bool, sel *shardSelector) ([]byte, error) {
	b := l.body(c, expired, sel)
	b.addedOnce.Do(func() {
		for v := range l.listed(expired) {
			if !sel.matches(v.obj) {
				continue
			}
			e, err := v.encode(c.format)
			if err != nil {
				b.addedErr = err
				return
			}
			b.added = appendFrame(b.added, c.format, watch.Added, e.body)
		}
	})
	return b.added, b.addedErr
}

// ring returns the events, which Expire does not change.
func (l *Load) ring(c *call, sel *shardSelector) ([]loadFrame, error) {
	b := l.body(c, false, sel)
	b.ringOnce.Do(func() {
		for v := range l.changed() {
			if !sel.matches(v.obj) {
				continue
			}
			e, err := v.encode(c.format)
			if err != nil {
				b.ringErr = err
				return
			}
			frame := loadFrame{bytes: appendFrame(nil, c.format, watch.Modified, e.body), sentAt: -1}
			if frame.rvAt, err = only(frame.bytes, strconv.AppendUint(nil, loadMark, 10)); err == nil && l.opts.Stamp {
				frame.sentAt, err = only(frame.bytes, []byte(sentMark))
			}
			if err != nil {
				b.ringErr = fmt.Errorf("load: object %s: %w", v.path, err)
				return
			}
			b.ring = append(b.ring, frame)
		}
	})
	return b.ring, b.ringErr
}

// only returns the offset of the only occurrence of mark. It fails unless there is exactly one.
func only(frame, mark []byte) (int, error) {
	at := bytes.Index(frame, mark)
	if at < 0 || at != bytes.LastIndex(frame, mark) {
		return 0, fmt.Errorf("placeholder %s must occur exactly once", mark)
	}
	return at, nil
}

package apiserver

import (
	"bytes"
	"fmt"
	"iter"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/object"
)

// listed makes the objects of the list, one after the other.
func (l *Load) listed(expired bool) iter.Seq[*version] {
	return func(yield func(*version) bool) {
		changes := uint64(0)
		for i := range l.opts.Objects {
			obj, rv := l.opts.New(i), loadRV+uint64(i)
			stripKind(obj)
			if expired && i*l.opts.Changed/l.opts.Objects != (i+1)*l.opts.Changed/l.opts.Objects {
				changes++
				rv = loadRV + uint64(l.opts.Objects) + expiredGap + changes
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

// changed makes the objects of the ring.
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

func (l *Load) body(c *call, expired bool) *loadBody {
	if expired {
		return &l.bodies[1][c.format]
	}
	return &l.bodies[0][c.format]
}

// listBody is the whole answer to a list.
func (l *Load) listBody(c *call, expired bool) ([]byte, error) {
	b := l.body(c, expired)
	b.once.Do(func() { b.list, b.err = l.encode(c, expired, l.opts.Objects) })
	return b.list, b.err
}

// firstBody is the answer to a list of one.
func (l *Load) firstBody(c *call, expired bool) ([]byte, error) {
	b := l.body(c, expired)
	b.firstOnce.Do(func() { b.first, b.firstErr = l.encode(c, expired, 1) })
	return b.first, b.firstErr
}

// encode makes a list of the first n objects.
func (l *Load) encode(c *call, expired bool, n int) ([]byte, error) {
	items := make([]listItem, 0, n)
	for v := range l.listed(expired) {
		e, err := v.encode(c.format)
		if err != nil {
			return nil, err
		}
		if items = append(items, listItem{e.lead, e.item}); len(items) == n {
			break
		}
	}
	meta := metav1.ListMeta{ResourceVersion: strconv.FormatUint(l.listRV(expired), 10)}
	if n < l.opts.Objects {
		left := int64(l.opts.Objects - n)
		meta.Continue, meta.RemainingItemCount = "more", &left // which nobody asks for
	}
	head, tail, err := c.listFrame(listMeta{ListMeta: meta}, items)
	if err != nil {
		return nil, err
	}
	return listBody(c.format, head, items, tail), nil
}

// added is the beginning of a streaming list.
func (l *Load) added(c *call, expired bool) ([]byte, error) {
	b := l.body(c, expired)
	b.addedOnce.Do(func() {
		for v := range l.listed(expired) {
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

// ring is the events, which are the same before and after Expire.
func (l *Load) ring(c *call) ([]loadFrame, error) {
	b := l.body(c, false)
	b.ringOnce.Do(func() {
		for v := range l.changed() {
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

// only finds the one place at which mark stands.
func only(frame, mark []byte) (int, error) {
	at := bytes.Index(frame, mark)
	if at < 0 || at != bytes.LastIndex(frame, mark) {
		return 0, fmt.Errorf("%s, which marks a place, must be there exactly once", mark)
	}
	return at, nil
}

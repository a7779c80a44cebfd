package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire/internal/crew"
	"github.com/millrace-dev/millrace/wire/internal/fault"
	"github.com/millrace-dev/millrace/wire/internal/frame"
)

// jsonList reads one list body. The fields of a list come in any order, so items
// may come before the list says what it is.
type jsonList struct {
	*jsonDecoder
	*frame.JSON
	*crew.Crew[item]
	meta       *metav1.ListMeta
	selector   string // by which the server has selected
	apiVersion string
	kind       string
	status     metav1.Status // what the body is if it turns out to be one
	seenItems  bool
	bare       bool // an item did not name its kind
}

func (d *jsonDecoder) List(body io.Reader, meta *metav1.ListMeta, known Known) iter.Seq2[object.Head, error] {
	return func(yield func(object.Head, error) bool) {
		l := &jsonList{jsonDecoder: d, JSON: d.scan(frame.NewSource(body)), meta: meta}
		newItem := func() crew.Decode[item] { return d.newItem(known) }
		l.Crew = crew.New(l.JSON.Source, newItem, func(i item) bool {
			l.bare = l.bare || i.bare
			return i.passed || yield(i.object, nil)
		})
		defer l.Close()
		err := l.run()
		if earlier := l.Flush(); earlier != nil {
			err = earlier
		}
		if err == nil {
			err = l.check()
		}
		if err != nil && err != crew.ErrStopped {
			yield(nil, listFailed(l.fail, l.Count(), err))
		}
	}
}

// run reads the body to its end.
func (l *jsonList) run() error {
	*l.meta = metav1.ListMeta{}
	if err := l.Expect('{'); err != nil {
		return err
	}
	for first := true; ; first = false {
		more, err := l.JSON.More('}', first)
		if err != nil {
			return err
		}
		if !more {
			return l.AtEnd()
		}
		name, err := l.Key()
		if err != nil {
			return err
		}
		if name == "items" {
			err = l.readItems()
		} else {
			err = l.field(name)
		}
		if err != nil {
			return err
		}
	}
}

// check checks a list after its last byte.
func (l *jsonList) check() error {
	if l.kind == "Status" && l.apiVersion == "v1" {
		return apierrors.FromObject(&l.status)
	}
	if err := l.checkListKind(l.apiVersion, l.kind, l.bare); err != nil {
		return err
	}
	l.tell(l.selector)
	return nil
}

// field reads a field of the list other than its items.
func (l *jsonList) field(name string) error {
	value, err := l.Value()
	if err != nil {
		return err
	}
	raw := value.Raw
	var into any
	switch name {
	case "apiVersion":
		into = &l.apiVersion
	case "kind":
		into = &l.kind
	case "metadata":
		*l.meta = metav1.ListMeta{}
		into = l.meta
		if l.selected != nil {
			l.selector = selectedJSON(raw)
		}
		l.status.ListMeta = metav1.ListMeta{}
	case "status":
		into = &l.status.Status
	case "message":
		into = &l.status.Message
	case "reason":
		into = &l.status.Reason
	case "code":
		into = &l.status.Code
	case "details":
		into = &l.status.Details
	default:
		if !json.Valid(raw) {
			return l.Syntax("valid JSON before this")
		}
		return nil
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, into); err != nil {
		return fmt.Errorf("field %q of the list: %w", name, fault.WithoutContent(err))
	}
	return nil
}

// readItems reads the items, which may also be null.
func (l *jsonList) readItems() error {
	if l.seenItems {
		return fmt.Errorf("%w: a second field \"items\"", ErrSyntax)
	}
	l.seenItems = true
	if c, err := l.Space(); err == nil && c == 'n' {
		return l.readNull()
	}
	if err := l.Expect('['); err != nil {
		return err
	}
	if l.kind != "" && l.apiVersion != "" {
		if err := l.checkListKind(l.apiVersion, l.kind, false); err != nil {
			return err
		}
	}
	for first := true; ; first = false {
		more, err := l.JSON.More(']', first)
		if err != nil || !more {
			return err
		}
		i, err := l.Value()
		if err != nil {
			return l.itemFailed(err)
		}
		l.Found(i)
	}
}

func (l *jsonList) readNull() error {
	value, err := l.Value()
	if err == nil && string(value.Raw) != "null" {
		err = l.Syntax("an array or null before this")
	}
	return err
}

// itemFailed says at which item the body is broken.
func (l *jsonList) itemFailed(err error) error {
	if err == crew.ErrStopped || frame.IsTransport(err) {
		return err
	}
	if _, ok := errors.AsType[*Error](err); ok {
		return err // of an earlier item
	}
	return l.fail(whereItem(l.Count()), nil, err)
}

// newItem returns a function that decodes items, for one goroutine.
func (d *jsonDecoder) newItem(known Known) crew.Decode[item] {
	run, glance := d.newRun(), newGlance(d.wanted, d)
	return func(i frame.Item, number int) (item, error) {
		if _, passed := glance.passes(i); passed {
			return item{passed: true}, nil
		}
		if have, ok := d.known(known, i); ok {
			return item{object: have}, nil
		}
		obj, bare, err := d.decodeItem(run, i, true)
		if err != nil {
			return item{}, d.fail(whereItem(number), i.Raw, err)
		}
		return item{object: obj, bare: bare}, nil
	}
}

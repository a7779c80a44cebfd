package wire

import (
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"github.com/millrace-dev/millrace/object"
)

// jsonList is the state of reading one list body. The fields of a list may
// come in any order, so that items may be read before the list says what it is.
type jsonList[T object.Object] struct {
	*jsonDecoder[T]
	*scanner
	objects    *jsonRun
	meta       *metav1.ListMeta
	known      Known[T]
	apiVersion string
	kind       string
	status     metav1.Status // what the body is if it turns out to be one
	seenItems  bool
	bare       bool // some items did not name their kind
	items      int
}

func (d *jsonDecoder[T]) List(body io.Reader, meta *metav1.ListMeta, known Known[T]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		l := &jsonList[T]{jsonDecoder: d, scanner: d.scan(newSource(body)), objects: d.newRun(), meta: meta, known: known}
		if err := l.run(yield); err != nil && err != errStopped {
			var none T
			yield(none, err)
		}
	}
}

// run reads the body to its end.
func (l *jsonList[T]) run(yield func(T, error) bool) error {
	*l.meta = metav1.ListMeta{}
	if err := l.expect('{'); err != nil {
		return l.failed(err)
	}
	for first := true; ; first = false {
		more, err := l.more('}', first)
		if err != nil {
			return l.failed(err)
		}
		if !more {
			break
		}
		name, err := l.key()
		if err != nil {
			return l.failed(err)
		}
		if name == "items" {
			err = l.readItems(yield)
		} else if err = l.field(name); err != nil {
			err = l.failed(err)
		}
		if err != nil {
			return err
		}
	}
	if err := l.atEnd(); err != nil {
		return l.failed(err)
	}
	if l.kind == "Status" && l.apiVersion == "v1" {
		return apierrors.FromObject(&l.status)
	}
	if err := l.checkListKind(l.apiVersion, l.kind, l.bare); err != nil {
		return l.failed(err)
	}
	return nil
}

// failed says where in the list it went wrong. Errors of the transport pass as
// they are: they say nothing about the bytes.
func (l *jsonList[T]) failed(err error) error {
	if isTransport(err) {
		return fmt.Errorf("read list after %d items: %w", l.items, err)
	}
	return l.fail("list after "+strconv.Itoa(l.items)+" items", nil, err)
}

// field reads a field of the list other than its items.
func (l *jsonList[T]) field(name string) error {
	value, err := l.value()
	if err != nil {
		return err
	}
	raw := value.raw
	var into any
	switch name {
	case "apiVersion":
		into = &l.apiVersion
	case "kind":
		into = &l.kind
	case "metadata":
		*l.meta = metav1.ListMeta{}
		into = l.meta
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
			return l.syntax("valid JSON before this")
		}
		return nil
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, into); err != nil {
		return fmt.Errorf("field %q of the list: %w", name, withoutContent(err))
	}
	return nil
}

// readItems reads the items, which may also be null. Its errors are final.
func (l *jsonList[T]) readItems(yield func(T, error) bool) error {
	if l.seenItems {
		return l.failed(fmt.Errorf("%w: a second field \"items\"", ErrSyntax))
	}
	l.seenItems = true
	if c, err := l.space(); err == nil && c == 'n' {
		return l.readNull()
	}
	if err := l.expect('['); err != nil {
		return l.failed(err)
	}
	if l.kind != "" && l.apiVersion != "" {
		if err := l.checkListKind(l.apiVersion, l.kind, false); err != nil {
			return l.failed(err)
		}
	}
	for first := true; ; first = false {
		more, err := l.more(']', first)
		if err != nil {
			return l.failed(err)
		}
		if !more {
			return nil
		}
		item, err := l.item()
		if err != nil {
			return err
		}
		l.items++
		if !yield(item, nil) {
			return errStopped
		}
	}
}

func (l *jsonList[T]) readNull() error {
	value, err := l.value()
	if err == nil && string(value.raw) != "null" {
		err = l.syntax("an array or null before this")
	}
	if err != nil {
		return l.failed(err)
	}
	return nil
}

func (l *jsonList[T]) item() (T, error) {
	var none T
	i, err := l.value()
	if err != nil {
		if isTransport(err) {
			return none, l.failed(err)
		}
		return none, l.fail("item "+strconv.Itoa(l.items), nil, err)
	}
	obj, bare, err := l.decodeItem(l.objects, i, true)
	if err != nil {
		return none, l.fail("item "+strconv.Itoa(l.items), i.raw, err)
	}
	l.bare = l.bare || bare
	return l.known.instead(obj), nil
}

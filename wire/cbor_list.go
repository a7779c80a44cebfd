package wire

import (
	"bytes"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/wire/internal/cbor"
	"github.com/millrace-dev/millrace/wire/internal/frame"
	"github.com/millrace-dev/millrace/wire/internal/guard"
	"github.com/millrace-dev/millrace/wire/internal/parallel"
)

// cborList reads one list body: a map with the items in one field. The other fields are small and may appear
// in any order, so they are buffered until the end.
type cborList struct {
	*cborEncoding
	*frame.CBOR
	*parallel.Decoder[item]
	meta      *metav1.ListMeta
	others    []byte // the fields other than the items, as a map
	seenItems bool
}

func (d *cborEncoding) list(s *frame.Source, workers *parallel.Decoder[item], meta *metav1.ListMeta) listReader {
	return &cborList{cborEncoding: d, CBOR: d.scan(s), Decoder: workers, meta: meta}
}

func (l *cborList) read() error {
	l.others = []byte{frame.CBORMap<<5 | 31}
	h, err := l.CBOR.Head()
	if err == nil && h.Major == frame.CBORTag && h.Value == frame.CBORSelfDescribed {
		h, err = l.CBOR.Head()
	}
	if err != nil {
		return err
	}
	if h.Major != frame.CBORMap {
		return l.Syntax("a map before this")
	}
	for n := uint64(0); ; n++ {
		more, err := l.More(h, n)
		if err != nil {
			return err
		}
		if !more {
			l.others = append(l.others, frame.CBORBreak)
			return l.AtEnd()
		}
		if err := l.field(); err != nil {
			return err
		}
	}
}

// field reads one field of the list.
func (l *cborList) field() error {
	quoted, err := l.Value()
	if err != nil {
		return err
	}
	name, ok := cbor.TextOf(quoted)
	if !ok {
		return l.Syntax("a field name before this")
	}
	if string(name) == "items" {
		return l.readItems()
	}
	l.others = append(l.others, quoted...)
	value, err := l.Value()
	if err != nil {
		return err
	}
	if l.others = append(l.others, value...); len(l.others) > maxSmallField {
		return fmt.Errorf("%w: the list has more than %d bytes in addition to its items", ErrTooLarge, maxSmallField)
	}
	return nil
}

// readItems reads the items, or null.
func (l *cborList) readItems() error {
	if l.seenItems {
		return fmt.Errorf("%w: a second field \"items\"", ErrSyntax)
	}
	l.seenItems = true
	h, err := l.CBOR.Head()
	if err != nil || h.IsNull() {
		return err
	}
	if h.Major != frame.CBORArray {
		return l.Syntax("an array or null before this")
	}
	for n := uint64(0); ; n++ {
		if more, err := l.More(h, n); err != nil || !more {
			return err
		}
		raw, err := l.Value()
		if err != nil {
			return l.itemFailed(err)
		}
		l.Add(frame.Item{Raw: raw})
	}
}

// itemFailed returns the error for malformed data in the current item.
func (l *cborList) itemFailed(err error) error {
	if err == parallel.ErrStopped || frame.IsTransport(err) {
		return err
	}
	if earlier := l.Flush(); earlier != nil {
		return earlier
	}
	return l.fail(whereItem(l.Count()), nil, err)
}

// check decodes the list's other fields into a Status, which has all the fields of a list except the
// items.
func (l *cborList) check(itemsLackKind bool) (selector string, err error) {
	var list metav1.Status
	if err := cbor.Unmarshal(l.others, &list); err != nil {
		return "", err
	}
	*l.meta = list.ListMeta
	if list.Kind == "Status" && list.APIVersion == "v1" {
		return "", apierrors.FromObject(&list)
	}
	return selectedCBOR(l.others), l.checkListKind(list.APIVersion, list.Kind, itemsLackKind || !l.seenItems)
}

// selectedCBOR is like selectedJSON, but for CBOR. list contains all of the list's fields except
// its items.
func selectedCBOR(list []byte) string {
	if !bytes.Contains(list, []byte("shardInfo")) {
		return ""
	}
	var fields cbor.Tree
	if cbor.Check(guard.Untyped, list) != nil || cbor.Unmarshal(list, &fields) != nil {
		return ""
	}
	metadata, _ := fields["metadata"].(map[string]any)
	info, _ := metadata["shardInfo"].(map[string]any)
	selector, _ := info["selector"].(string)
	return selector
}

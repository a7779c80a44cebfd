package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"github.com/millrace-dev/millrace/wire/internal/fault"
	"github.com/millrace-dev/millrace/wire/internal/frame"
	"github.com/millrace-dev/millrace/wire/internal/parallel"
)

// jsonList reads one list body. A list's fields may appear in any order, so the items may come
// before the list's kind.
type jsonList struct {
	*jsonEncoding
	*frame.JSON
	*parallel.Decoder[item]
	meta       *metav1.ListMeta
	selector   string // selector applied by the server
	apiVersion string
	kind       string
	status     metav1.Status // the body, if it turns out to be a Status
	seenItems  bool
}

func (d *jsonEncoding) list(s *frame.Source, workers *parallel.Decoder[item], meta *metav1.ListMeta) listReader {
	return &jsonList{jsonEncoding: d, JSON: d.scan(s), Decoder: workers, meta: meta}
}

func (l *jsonList) read() error {
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

func (l *jsonList) check(itemsLackKind bool) (selector string, err error) {
	if l.kind == "Status" && l.apiVersion == "v1" {
		return "", apierrors.FromObject(&l.status)
	}
	return l.selector, l.checkListKind(l.apiVersion, l.kind, itemsLackKind || !l.seenItems)
}

// field reads one of the list's fields other than its items.
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
		l.selector = selectedJSON(raw)
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

// readItems reads the items, or null.
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
		l.Add(i)
	}
}

func (l *jsonList) readNull() error {
	value, err := l.Value()
	if err == nil && string(value.Raw) != "null" {
		err = l.Syntax("an array or null before this")
	}
	return err
}

// itemFailed returns the error for malformed data in the current item.
func (l *jsonList) itemFailed(err error) error {
	if err == parallel.ErrStopped || frame.IsTransport(err) {
		return err
	}
	if _, ok := errors.AsType[*Error](err); ok {
		return err // from an earlier item
	}
	return l.fail(whereItem(l.Count()), nil, err)
}

// selectedJSON returns the selector that the server has applied to a list (shardInfo, KEP-5866),
// from the list's metadata. apimachinery has supported it since v0.36. It returns "" for anything unexpected.
func selectedJSON(metadata []byte) string {
	if !bytes.Contains(metadata, []byte("shardInfo")) {
		return ""
	}
	var m struct {
		ShardInfo struct {
			Selector string `json:"selector"`
		} `json:"shardInfo"`
	}
	if json.Unmarshal(metadata, &m) != nil {
		return ""
	}
	return m.ShardInfo.Selector
}

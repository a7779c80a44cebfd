package cbor

import (
	"fmt"

	"github.com/millrace-dev/millrace/wire/internal/fault"
	"github.com/millrace-dev/millrace/wire/internal/frame"
	"github.com/millrace-dev/millrace/wire/internal/head"
	"github.com/millrace-dev/millrace/wire/internal/memory"
)

// walk is a position in a data item. Its methods advance the position, and return false if the input is not
// what they expect.
type walk struct {
	raw []byte
	at  int
}

func (w *walk) head() (frame.CBORHead, bool) {
	h, ok, err := frame.ReadCBORHead(w.raw[w.at:])
	w.at += h.Size
	return h, ok && err == nil
}

// enter returns the next head. It skips the tag that marks data as CBOR.
func (w *walk) enter() (frame.CBORHead, bool) {
	h, ok := w.head()
	if ok && h.Major == frame.CBORTag && h.Value == frame.CBORSelfDescribed {
		return w.head()
	}
	return h, ok
}

// text reads a text string or a byte string.
func (w *walk) text() (text []byte, ok bool) {
	h, ok := w.head()
	if !ok || h.Major != frame.CBORText && h.Major != frame.CBORBytes || h.Indefinite || h.Value > uint64(len(w.raw)-w.at) {
		return nil, false
	}
	start := w.at
	w.at += int(h.Value)
	return w.raw[start:w.at:w.at], true
}

// TextOf returns a data item's text if it is a string.
func TextOf(raw []byte) (text []byte, ok bool) {
	w := walk{raw: raw}
	return w.text()
}

// skip skips a data item and returns it.
func (w *walk) skip() (raw []byte, ok bool) {
	s := frame.CBOR{Source: frame.FromBytes(w.raw[w.at:]), MaxBytes: len(w.raw), MaxDepth: len(w.raw)}
	raw, err := s.Value()
	w.at += len(raw)
	return raw, err == nil
}

// eachField calls read at each field value in the map that starts here, until read returns false.
// It reports whether it reached the end of the map.
func (w *walk) eachField(read func(name []byte) bool) bool {
	h, ok := w.enter()
	if !ok || h.Major != frame.CBORMap {
		return false
	}
	for n := uint64(0); h.Indefinite || n < h.Value; n++ {
		if h.Indefinite && w.at < len(w.raw) && w.raw[w.at] == frame.CBORBreak {
			w.at++
			return true
		}
		name, ok := w.text()
		if !ok || !read(name) {
			return false
		}
	}
	return true
}

// IdentityOf reads as much of an object's identity as possible, and decodes nothing else. ok reports
// whether the whole object was readable.
func IdentityOf(raw []byte) (of head.Identity, ok bool) {
	w := walk{raw: raw}
	set := func(into *string) bool {
		text, ok := w.text()
		if ok = ok && *into == ""; ok {
			*into = memory.String(text)
		}
		return ok
	}
	pass := func() bool {
		_, ok := w.skip()
		return ok
	}
	metadata := func(name []byte) bool {
		switch string(name) {
		case "namespace":
			return set(&of.Namespace)
		case "name":
			return set(&of.Name)
		case "uid":
			return set(&of.UID)
		case "resourceVersion":
			return set(&of.RV)
		}
		return pass()
	}
	ok = w.eachField(func(name []byte) bool {
		switch string(name) {
		case "apiVersion":
			return set(&of.APIVersion)
		case "kind":
			return set(&of.Kind)
		case "metadata":
			return w.eachField(metadata)
		}
		return pass()
	})
	return of, ok
}

// SplitEvent returns the fields of a metav1.WatchEvent.
func SplitEvent(raw []byte) (typ string, obj []byte, err error) {
	w := walk{raw: raw}
	sound := w.eachField(func(name []byte) bool {
		value, ok := w.skip()
		switch string(name) {
		case "type":
			text, isText := (&walk{raw: value}).text()
			ok = ok && isText && typ == ""
			typ = string(text)
		case "object":
			ok = ok && obj == nil
			obj = value
		}
		return ok
	})
	switch {
	case !sound:
		return "", nil, fmt.Errorf("%w: the frame is not a map with a type and an object", fault.ErrSyntax)
	case obj == nil:
		return "", nil, fmt.Errorf("%w: the frame holds no object", fault.ErrSyntax)
	}
	return typ, obj, nil
}

package json

import (
	"fmt"

	"github.com/millrace-dev/millrace/wire/internal/fault"
	"github.com/millrace-dev/millrace/wire/internal/frame"
)

// SplitEvent returns the type and the object of a watch frame that nests no deeper than maxDepth.
// It uses the tape. For an unusual frame it starts over without the tape; in that case the object has no tape
// either.
func SplitEvent(whole frame.Item, maxDepth int) (typ string, obj frame.Item, err error) {
	typ, start, place, err := eventFields(whole)
	if err == nil {
		return typ, whole.Within(start, place), nil
	}
	s := &frame.JSON{Source: frame.FromBytes(whole.Raw), MaxBytes: len(whole.Raw), MaxDepth: maxDepth, Part: "the frame"}
	if err := s.Expect('{'); err != nil {
		return "", frame.Item{}, err
	}
	for first := true; ; first = false {
		more, err := s.More('}', first)
		if err != nil {
			return "", frame.Item{}, err
		}
		if !more {
			break
		}
		name, err := s.Key()
		if err != nil {
			return "", frame.Item{}, err
		}
		value, err := s.Value()
		if err != nil {
			return "", frame.Item{}, err
		}
		switch name {
		case "type":
			if typ, err = frame.Unquote(value.Raw); err != nil {
				return "", frame.Item{}, fmt.Errorf("%w: the event type is not a string", fault.ErrSyntax)
			}
		case "object":
			obj = frame.Item{Raw: value.Raw}
		}
	}
	if obj.Raw == nil {
		return "", frame.Item{}, fmt.Errorf("%w: the frame holds no object", fault.ErrSyntax)
	}
	return typ, obj, nil
}

// eventFields reads an event's two fields, in any order. It returns the type, and where the object starts
// in the bytes and on the tape. It fails on any other field.
func eventFields(whole frame.Item) (typ string, start, place int, err error) {
	w := walk{Item: whole}
	for more := w.enter('}'); more; {
		name, plain, err := w.text()
		if err != nil || !plain {
			return "", 0, 0, fault.ErrUnusual
		}
		if err := w.colon(); err != nil {
			return "", 0, 0, err
		}
		switch c := w.peek(); {
		case string(name) == "type" && typ == "" && c == '"':
			text, plain, err := w.text()
			if err != nil || !plain {
				return "", 0, 0, fault.ErrUnusual
			}
			typ = string(text)
		case string(name) == "object" && place == 0 && c == '{':
			start, place = w.at, w.next
			w.skipContainer()
		default:
			return "", 0, 0, fault.ErrUnusual
		}
		if more, err = w.more('}'); err != nil {
			return "", 0, 0, err
		}
	}
	if typ == "" || place == 0 || w.at != len(whole.Raw) {
		return "", 0, 0, fault.ErrUnusual
	}
	return typ, start, place, nil
}

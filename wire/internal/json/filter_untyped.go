package json

import (
	"strconv"

	"github.com/millrace-dev/millrace/wire/internal/fault"
	"github.com/millrace-dev/millrace/wire/internal/guard"
	"github.com/millrace-dev/millrace/wire/internal/memory"
	"github.com/millrace-dev/millrace/wire/internal/selection"
)

// filterAny checks a value without a Go type the way an untypedDecoder decodes it.
func (d *Decoder) filterAny(wanted *selection.Tree, at level) error {
	c := d.peek()
	switch {
	case c == '{':
		return d.filterObject(wanted, at)
	case c == '[':
		return d.filterArray(wanted)
	case !wanted.KeepsValues():
		return fault.ErrUnusual // the field that contains it is dropped entirely
	}
	switch c {
	case '"':
		if !d.Budget.Take(1, guard.TextBytes) {
			return fault.ErrUnusual
		}
		return d.filterText()
	case 't':
		return d.literal("true")
	case 'f':
		return d.literal("false")
	case 'n':
		return d.literal("null")
	}
	text, whole, err := d.number()
	if err != nil {
		return err
	}
	if !d.Budget.Take(1, guard.NumberBytes) {
		return fault.ErrUnusual
	}
	if whole {
		if _, err := wholeNumber(text); err == nil {
			return nil
		}
	}
	_, err = strconv.ParseFloat(memory.String(text), 64)
	return fault.Unusual(err)
}

func (d *Decoder) filterArray(wanted *selection.Tree) error {
	if !d.Budget.Take(1, guard.ListBytes) {
		return fault.ErrUnusual
	}
	for more := d.enter(']'); more; {
		if !d.Budget.Take(1, guard.ElementBytes) {
			return fault.ErrUnusual
		}
		err := d.filterAny(wanted, nested)
		if err != nil {
			return err
		}
		if more, err = d.more(']'); err != nil {
			return err
		}
	}
	return nil
}

// filterObject filters the fields of an object without a Go type.
func (d *Decoder) filterObject(wanted *selection.Tree, at level) error {
	if d.peek() != '{' {
		return fault.ErrUnusual
	}
	size := guard.UntypedMap.First
	more := d.enter('}')
	for r := (fieldRow{end: d.at}); more; {
		d.peek()
		start := d.at
		name, err := d.name()
		if err != nil {
			return err
		}
		sub, keep := wanted.Field(memory.String(name))
		if keep {
			if !d.Budget.Take(1, size) {
				return fault.ErrUnusual
			}
			size = guard.UntypedMap.Each
			d.keepField(&r, start)
			d.peek()
			start = d.at
			if err = d.filterAny(sub, at.of(memory.String(name))); err == nil {
				err = d.recordHeadField(at, memory.String(name), d.Raw[start:d.at], sub == nil)
			}
		} else if err = d.skip(); err == nil {
			d.dropField(&r)
		}
		if err != nil {
			return err
		}
		r.end = d.at
		if more, err = d.more('}'); err != nil {
			return err
		}
	}
	if size == guard.UntypedMap.First && !d.Budget.Take(1, guard.UntypedMap.Of(0)) {
		return fault.ErrUnusual
	}
	return nil
}

// name reads a field's name and the colon after it.
func (d *Decoder) name() ([]byte, error) {
	name, plain, err := d.walk.text()
	if err == nil && !plain {
		name, err = unescape(nil, name)
	}
	if err == nil {
		err = d.colon()
	}
	return name, err
}

package json

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	"github.com/millrace-dev/millrace/wire/internal/fault"
	"github.com/millrace-dev/millrace/wire/internal/frame"
	"github.com/millrace-dev/millrace/wire/internal/guard"
	"github.com/millrace-dev/millrace/wire/internal/memory"
)

// maxDepth is the deepest nesting that the reference supports.
const maxDepth = 10000

// Check fails if the reference must not read the JSON object raw: with ErrTooDense if it would use
// too much memory, or with ErrQuantity if a quantity takes too long to parse. Like the reference, it visits
// every value, even the first of two fields with the same name. It may stop at invalid JSON, because the
// reference rejects invalid JSON before it decodes anything.
func Check(g *guard.Guard, raw []byte) error {
	c := check{walk: walk{Item: frame.Item{Raw: raw}}, budget: guard.BudgetOf(len(raw))}
	switch err := c.value(g); err {
	case fault.ErrTooDense:
		return guard.TooDense(len(raw))
	case fault.ErrUnusual:
		return nil
	default:
		return err
	}
}

// EstimateMemory estimates how many bytes of memory the reference allocates for the JSON object raw,
// including the spare capacity of lists.
func EstimateMemory(g *guard.Guard, raw []byte) int64 {
	c := check{walk: walk{Item: frame.Item{Raw: raw}}, budget: math.MaxInt64, estimates: true}
	_ = c.value(g)
	return int64(math.MaxInt64-c.budget) + int64(len(raw))
}

// check walks an object and counts the memory that the reference would allocate. It does not use a tape.
type check struct {
	walk
	budget    guard.Budget
	depth     int
	estimates bool // only estimate memory; don't check quantities
}

// value skips the next value. It fails if the reference must not read the value, and with
// ErrUnusual if the reference would reject it.
func (c *check) value(g *guard.Guard) error {
	b := c.peek()
	for g != nil && b != 'n' && (g.Form == guard.Pointer || g.Form == guard.Unmarshaler) {
		if g.Form == guard.Unmarshaler {
			g = g.Alternative(b == '{', b == '[')
			continue
		}
		if !c.budget.Take(1, g.Size) {
			return fault.ErrTooDense
		}
		g = g.Elem
	}
	switch {
	case g == nil:
	case b == '{' && (g.Form == guard.Struct || g.Form == guard.Map || g.Form == guard.Any):
		return c.nested(g, c.fields)
	case b == '[' && (g.Form == guard.List || g.Form == guard.Any):
		return c.nested(g, c.elements)
	}
	start := c.at
	c.pass()
	switch text := c.Raw[start:c.at]; {
	case len(text) == 0:
		return fault.ErrUnusual
	case g == nil:
	case g.Form == guard.Any && b == '"' && !c.budget.Take(1, guard.TextBytes),
		g.Form == guard.Any && (b == '-' || b-'0' < 10) && !c.budget.Take(1, guard.NumberBytes):
		return fault.ErrTooDense
	case g.Form == guard.Quantity && !c.estimates && (guard.AbsurdQuantity(bytes.Trim(text, `"`)) || guard.AbsurdQuantity(unquoted(text))):
		return fault.ErrQuantity
	}
	return nil
}

// pass skips a value. If the value is invalid, pass may stop anywhere.
func (c *check) pass() {
	if b := c.peek(); b != '{' && b != '[' {
		c.skipUnchecked()
		return
	}
	for depth := 0; c.at < len(c.Raw); {
		switch c.Raw[c.at] {
		case '"':
			c.skipUnchecked()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		if c.at++; depth == 0 {
			return
		}
	}
}

// nested checks the contents of an object or array.
func (c *check) nested(g *guard.Guard, look func(*guard.Guard) error) error {
	if c.depth++; c.depth > maxDepth {
		return fault.ErrUnusual
	}
	err := look(g)
	c.depth--
	return err
}

func (c *check) elements(g *guard.Guard) error {
	elem, size := g.Elem, g.Size
	if g.Form == guard.Any {
		if elem, size = g, guard.ElementBytes; !c.budget.Take(1, guard.ListBytes) {
			return fault.ErrTooDense
		}
	}
	if c.estimates {
		size *= 2
	}
	for more := c.enter(']'); more; {
		if !c.budget.Take(1, size) {
			return fault.ErrTooDense
		}
		err := c.value(elem)
		if err != nil {
			return err
		}
		if more, err = c.more(']'); err != nil {
			return err
		}
	}
	return nil
}

func (c *check) fields(g *guard.Guard) error {
	each := g.Elem
	var bytes guard.MapBytes
	switch g.Form {
	case guard.Any:
		each, bytes = g, guard.UntypedMap
	case guard.Map:
		bytes = g.MapBytes
	}
	more := c.enter('}')
	if g.Form != guard.Struct && !more && !c.budget.Take(1, bytes.Of(0)) || !c.budget.Take(1, g.Size) {
		return fault.ErrTooDense
	}
	for size := bytes.First; more; size = bytes.Each {
		if !c.budget.Take(1, size) {
			return fault.ErrTooDense
		}
		c.peek()
		start := c.at
		c.pass()
		name := c.Raw[start:c.at]
		err := c.colon()
		if err == nil && g.Form == guard.Struct {
			err = c.value(g.Field(memory.String(unquoted(name))))
		} else if err == nil {
			err = c.value(each)
		}
		if errors.Is(err, fault.ErrQuantity) {
			err = fmt.Errorf("field %q: %w", fault.Excerpt(string(unquoted(name))), err)
		}
		if err != nil {
			return err
		}
		if more, err = c.more('}'); err != nil {
			return err
		}
	}
	return nil
}

// unquoted returns the text of the JSON string raw as the reference decodes it, and any other value
// unchanged.
func unquoted(raw []byte) []byte {
	if len(raw) < 2 || raw[0] != '"' {
		return raw
	}
	if inside := raw[1 : len(raw)-1]; bytes.IndexByte(inside, '\\') < 0 && isSound(inside) {
		return inside
	}
	if text, err := frame.Unquote(raw); err == nil {
		return []byte(text)
	}
	return raw
}

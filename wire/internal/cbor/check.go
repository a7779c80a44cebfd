package cbor

import (
	"github.com/millrace-dev/millrace/wire/internal/frame"
	"github.com/millrace-dev/millrace/wire/internal/guard"
	"github.com/millrace-dev/millrace/wire/internal/memory"
)

// maxDepth is the maximum nesting depth that the codec can be configured for.
const maxDepth = 1 << 16

// Check fails with ErrTooDense if the codec would need too much memory to decode raw, an object found by a
// scanner. It ignores input that the codec would reject anyway.
func Check(g *guard.Guard, raw []byte) error {
	c := check{walk: walk{raw: raw}, budget: guard.BudgetOf(len(raw))}
	if c.value(g); c.budget < 0 {
		return guard.TooDense(len(raw))
	}
	return nil
}

// check walks an object and counts the memory that the codec would allocate. Its methods return
// false to stop the walk, because the object is too large or the codec will reject it.
type check struct {
	walk
	budget guard.Budget
	depth  int
}

// head returns the next head that is not a tag.
func (c *check) head() (h frame.CBORHead, ok bool) {
	for h.Major, ok = frame.CBORTag, true; ok && h.Major == frame.CBORTag; {
		h, ok = c.walk.head()
	}
	return h, ok
}

// value skips the next value.
func (c *check) value(g *guard.Guard) bool {
	h, ok := c.head()
	return ok && c.valueAfter(g, h)
}

// valueAfter skips a value whose head has been read.
func (c *check) valueAfter(g *guard.Guard, h frame.CBORHead) bool {
	object, array := h.Major == frame.CBORMap, h.Major == frame.CBORArray
	for g != nil && !h.IsNull() && (g.Form == guard.Pointer || g.Form == guard.Unmarshaler) {
		if g.Form == guard.Unmarshaler {
			g = g.Alternative(object, array)
			continue
		}
		if !c.budget.Take(1, g.Size) {
			return false
		}
		g = g.Elem
	}
	if g != nil && g.Form == guard.Raw {
		g = guard.Untyped // the codec converts it to JSON through an any
	}
	untyped := g != nil && g.Form == guard.Any
	switch h.Major {
	case frame.CBORArray:
		return c.nested(g, h, c.elements)
	case frame.CBORMap:
		return c.nested(g, h, c.entries)
	case frame.CBORBytes, frame.CBORText:
		_, ok := c.content(h)
		return ok && (!untyped || c.budget.Take(1, guard.TextBytes))
	case frame.CBORUint, frame.CBORNegative:
		return !untyped || c.budget.Take(1, guard.NumberBytes)
	}
	return true
}

// content returns the content of a string whose head has been read.
func (c *check) content(h frame.CBORHead) (content []byte, ok bool) {
	if !h.Indefinite {
		if h.Value > uint64(len(c.raw)-c.at) {
			return nil, false
		}
		start := c.at
		c.at += int(h.Value)
		return c.raw[start:c.at:c.at], true
	}
	for !c.skipBreak() {
		part, ok := c.walk.text()
		if !ok {
			return nil, false
		}
		content = append(content, part...)
	}
	return content, true
}

// skipBreak skips a break, if any.
func (c *check) skipBreak() bool {
	if c.at < len(c.raw) && c.raw[c.at] == frame.CBORBreak {
		c.at++
		return true
	}
	return false
}

func (c *check) nested(g *guard.Guard, h frame.CBORHead, look func(*guard.Guard, frame.CBORHead) bool) bool {
	if c.depth++; c.depth > maxDepth {
		return false
	}
	ok := look(g, h)
	c.depth--
	return ok
}

func (c *check) elements(g *guard.Guard, h frame.CBORHead) bool {
	var elem *guard.Guard
	var size int64
	switch {
	case g == nil:
	case g.Form == guard.List:
		elem, size = g.Elem, g.Size
	case g.Form == guard.Any:
		if elem, size = g, guard.ElementBytes; !c.budget.Take(1, guard.ListBytes) {
			return false
		}
	}
	for n := uint64(0); h.Indefinite && !c.skipBreak() || !h.Indefinite && n < h.Value; n++ {
		if !c.budget.Take(1, size) || !c.value(elem) {
			return false
		}
	}
	return true
}

func (c *check) entries(g *guard.Guard, h frame.CBORHead) bool {
	var each *guard.Guard
	var bytes guard.MapBytes
	switch {
	case g == nil:
	case g.Form == guard.Any:
		each, bytes = g, guard.UntypedMap
	case g.Form == guard.Map:
		each, bytes = g.Elem, g.MapBytes
	case g.Form == guard.Struct && !c.budget.Take(1, g.Size):
		return false
	}
	empty := true
	for n := uint64(0); h.Indefinite && !c.skipBreak() || !h.Indefinite && n < h.Value; n++ {
		size := bytes.Each
		if empty {
			size = bytes.First
		}
		empty = false
		if !c.budget.Take(1, size) || !c.entry(g, each) {
			return false
		}
	}
	return !empty || bytes == (guard.MapBytes{}) || c.budget.Take(1, bytes.Of(0))
}

// entry skips a name and its value.
func (c *check) entry(g, each *guard.Guard) bool {
	h, ok := c.head()
	if !ok || h.Major != frame.CBORText && h.Major != frame.CBORBytes {
		return false
	}
	name, ok := c.content(h)
	if !ok {
		return false
	}
	if g == nil || g.Form != guard.Struct {
		return c.value(each)
	}
	return c.value(g.Field(memory.String(name)))
}

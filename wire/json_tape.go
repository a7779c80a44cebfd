package wire

// item is a value that was found in a body but not decoded yet: its bytes, and for
// JSON a tape. Another goroutine may decode it while the one that reads the body
// waits.
type item struct {
	raw  []byte
	tape tape // empty unless the value is a JSON object or array
}

// tape holds where each object and array of a value ends, in the order in which they
// begin, so that they can be skipped without reading them again.
type tape []extent

// extent is one object or array on a tape.
type extent struct {
	end  int32 // where in the value's bytes it is over
	next int32 // where on the tape the first one after it stands
}

// idleTape is the longest tape, in extents, that is kept for the next value.
const idleTape = 1 << 14

// reset returns an empty tape in the same memory, unless that is large.
func (t tape) reset() tape {
	if cap(t) > idleTape {
		return nil
	}
	return t[:0]
}

// within makes an item of the object or array in i that begins at byte start
// and is at place n of the tape. The tape of i is of no use any more.
func (i item) within(start, n int) item {
	last := i.tape[n]
	inner := i.tape[n:last.next]
	for s := range inner {
		inner[s].end -= int32(start)
		inner[s].next -= int32(n)
	}
	return item{raw: i.raw[start:last.end:last.end], tape: inner}
}

package frame

// Item is a value that was found in a body but not decoded yet: its bytes, and for
// JSON a tape. Another goroutine may decode it while the one that reads the body
// waits.
type Item struct {
	Raw  []byte
	Tape Tape // empty unless the value is a JSON object or array
}

// Tape holds where each object and array of a value ends, in the order in which they
// begin, so that they can be skipped without reading them again.
type Tape []extent

// extent is one object or array on a tape.
type extent struct {
	End  int32 // where in the value's bytes it is over
	Next int32 // where on the tape the first one after it stands
}

// idleTape is the longest tape, in extents, that is kept for the next value.
const idleTape = 1 << 14

// Reset returns an empty tape in the same memory, unless that is large.
func (t Tape) Reset() Tape {
	if cap(t) > idleTape {
		return nil
	}
	return t[:0]
}

// Within makes an item of the object or array in i that begins at byte start
// and is at place n of the tape. The tape of i is of no use any more.
func (i Item) Within(start, n int) Item {
	last := i.Tape[n]
	inner := i.Tape[n:last.Next]
	for s := range inner {
		inner[s].End -= int32(start)
		inner[s].Next -= int32(n)
	}
	return Item{Raw: i.Raw[start:last.End:last.End], Tape: inner}
}

package shard

import (
	"fmt"
	"math"
	"strings"
)

// maxRanges limits the number of ranges in a selector. With 1024 slots there can be no more than that,
// which results in a 50 KB URL. API servers accept up to a megabyte, but proxies may not, and the server
// compares each event with every range.
const maxRanges = 512

// Selector returns the selector for the objects in s (KEP-5866), for use as the shardSelector parameter
// of a list or watch. It is empty if k is not a key that API servers support, which are only UIDs and
// namespaces, if all slots are selected, or if there are more than 512 ranges. The selector for an empty
// set matches nothing, almost certainly.
func (k Key) Selector(s Slots) string {
	field := "object.metadata.uid"
	switch k.String() {
	case ByUID().String():
	case ByNamespace().String():
		field = "object.metadata.namespace"
	default:
		return ""
	}
	ranges := s.Ranges()
	if len(ranges) == 0 { // an absent selector would select everything, and the server rejects an empty one
		ranges = []Range{{0, 0}}
	}
	if len(ranges) > maxRanges || ranges[0] == (Range{0, math.MaxUint64}) {
		return ""
	}
	var b strings.Builder
	for n, r := range ranges {
		if n > 0 {
			b.WriteString("||")
		}
		end := "0x10000000000000000"
		if r.Last < math.MaxUint64 {
			end = fmt.Sprintf("0x%016x", r.Last+1)
		}
		fmt.Fprintf(&b, "shardRange(%s,'0x%016x','%s')", field, r.First, end)
	}
	return b.String()
}

// Selection indicates whether the server or the client filters out objects outside an informer's share.
type Selection uint8

const (
	// SelectionNone means that the informer has no share and nothing is filtered out.
	SelectionNone Selection = iota
	// SelectionUnknown means that responses have not yet revealed which side does the filtering, or that the
	// share contains all slots.
	SelectionUnknown
	// SelectionByServer means that the server sends hardly anything outside the share (KEP-5866). Either
	// the last list said so, or only objects in the share have arrived since then, and so many that the
	// server is almost certainly filtering.
	SelectionByServer
	// SelectionByClient means that the server sends all objects, and the informer skips those outside the
	// share. The server cannot select by the key, does not support selectors, or does not permit them.
	SelectionByClient
)

// String describes the selection.
func (s Selection) String() string {
	switch s {
	case SelectionNone:
		return "none"
	case SelectionByServer:
		return "by the server"
	case SelectionByClient:
		return "by the client"
	}
	return "unknown"
}

// MarshalText encodes the selection as text.
func (s Selection) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

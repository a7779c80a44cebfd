package shard

import (
	"fmt"
	"math"
	"strings"
)

// maxRanges limits the ranges of a selector. A set of 1024 slots never has more. That many ranges make a
// URL of 50 KB. API servers accept a megabyte, but proxies may not, and the server compares each event
// with every range.
const maxRanges = 512

// Selector returns the selector of the objects in some slots (KEP-5866), for the parameter shardSelector
// of a list or a watch. It is empty if an API server cannot select them, because it only knows UIDs and
// namespaces. It is also empty if all slots are selected or if there are more than 512 ranges. The
// selector of no slots is almost certain to select nothing.
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
	if len(ranges) == 0 { // leaving out the selector would select everything, and the server refuses an empty one
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

// Selection says whether the server or the client leaves out the objects that are not in an informer's
// share.
type Selection uint8

const (
	// SelectionNone means that the informer has no share and nothing is left out.
	SelectionNone Selection = iota
	// SelectionUnknown means that no response has shown which side does so, or that the share has all
	// slots.
	SelectionUnknown
	// SelectionByServer means that the server sends little more than the share (KEP-5866). The last list
	// said so, or only objects of the share have arrived since then, although other objects would almost
	// certainly have arrived too.
	SelectionByServer
	// SelectionByClient means that the server sends all objects, and the informer skips those outside
	// of the share. The server cannot select by the key, does not support selectors, or does not
	// permit them.
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

// MarshalText makes the JSON of a status readable.
func (s Selection) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

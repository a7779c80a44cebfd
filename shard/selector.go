package shard

import (
	"fmt"
	"math"
	"strings"
)

// maxRanges is how many ranges a selector has at most. Of 1024 slots there are never more. So
// many make a URL of 50 KB; API servers take a megabyte, but what is in front of them may
// not, and each event is compared with every range.
const maxRanges = 512

// Selector returns the selector by which an API server selects the objects in some slots of
// a group (KEP-5866), for the parameter shardSelector of a list or a watch. It is empty
// where there is nothing to select by: servers know UIDs and namespaces only, all slots are
// everything, and more than 512 ranges are too long. That of no slots is all but
// certain to select nothing.
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
	if len(ranges) == 0 { // no selector would be everything, and an empty one is refused
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

// Selection says who leaves out the objects that are not in an informer's share.
type Selection uint8

const (
	// SelectionNone: the informer has no share, and nothing is left out.
	SelectionNone Selection = iota
	// SelectionUnknown: no answer has told yet, or all slots are in the share.
	SelectionUnknown
	// SelectionByServer: the server sends what is in the share, and little else (KEP-5866). The
	// last list said so, or only what was asked for has come since, where more would have
	// been all but certain.
	SelectionByServer
	// SelectionByClient: the server sends all objects, and the informer passes by those that
	// are not in the share. It cannot select by the key, does not know how to, or is not let.
	SelectionByClient
)

// String says it in words.
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

// MarshalText lets a status print readably as JSON.
func (s Selection) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

package wire

import "sync"

// site is a kind of part that may be shared, together with a number under which
// each run counts how often looking for it has paid.
type site struct {
	unit   *unit
	number int
}

// protoPart names a kind of part in protobuf: the type of what is pointed to,
// of an element or of a map, and which of these it is.
type protoPart struct {
	typ any
	op  protoOp
}

var sites = struct {
	sync.Mutex
	known map[any]*site
}{known: make(map[any]*site)}

// siteOf returns the site of a part, the same for equal parts.
func siteOf(part any) *site {
	sites.Lock()
	defer sites.Unlock()
	s := sites.known[part]
	if s == nil {
		s = &site{unit: newUnit(), number: len(sites.known)}
		sites.known[part] = s
	}
	return s
}

package wire

import "sync"

// site is a kind of part that may be shared, with a number under which each run
// counts how often it was found.
type site struct {
	unit   *unit
	number int
}

// ownMemory is the size, in bytes, from which a value certainly has memory of its
// own. The allocator may put smaller values beside others, and values without a size
// nowhere. The pool would learn late that they are gone, or never.
const ownMemory = 16

// protoPart names a kind of part in protobuf: the type of what is pointed to,
// of an element or of a map, which of these it is, and what of it is decoded.
type protoPart struct {
	typ    any
	op     protoOp
	fields string // the key of the selection
}

// protoText names a string field.
type protoText struct {
	of     any
	number int
}

var sites = struct {
	sync.Mutex
	known map[any]*site
}{known: make(map[any]*site)}

// siteOf returns the site of a part, the same for equal parts.
func siteOf(part any) *site {
	return siteFor(part, nil)
}

// stringSite is the site of a string field. Strings are shared across fields.
func stringSite(field any) *site {
	return siteFor(field, stringUnit)
}

func siteFor(part any, u *unit) *site {
	sites.Lock()
	defer sites.Unlock()
	s := sites.known[part]
	if s == nil {
		if u == nil {
			u = newUnit()
		}
		s = &site{unit: u, number: len(sites.known)}
		sites.known[part] = s
	}
	return s
}

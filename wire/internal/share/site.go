package share

import "sync"

// Site is a kind of part that may be shared, with a number under which each run
// counts how often it was found.
type Site struct {
	unit   *unit
	Number int
}

// Under returns a site of the same kind of part with another number.
func (s *Site) Under(number int) *Site { return &Site{unit: s.unit, Number: number} }

// OwnMemory is the size, in bytes, from which a value certainly has memory of its
// own. The allocator may put smaller values beside others, and values without a size
// nowhere. The pool would learn late that they are gone, or never.
const OwnMemory = 16

var sites = struct {
	sync.Mutex
	known map[any]*Site
}{known: make(map[any]*Site)}

// SiteOf returns the site of a part, the same for equal parts.
func SiteOf(part any) *Site {
	return siteFor(part, nil)
}

// StringSite is the site of a string field. Strings are shared across fields.
func StringSite(field any) *Site {
	return siteFor(field, stringUnit)
}

func siteFor(part any, u *unit) *Site {
	sites.Lock()
	defer sites.Unlock()
	s := sites.known[part]
	if s == nil {
		if u == nil {
			u = newUnit()
		}
		s = &Site{unit: u, Number: len(sites.known)}
		sites.known[part] = s
	}
	return s
}

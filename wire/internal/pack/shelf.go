package pack

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"weak"

	"github.com/klauspost/compress/s2"
)

// Shelf makes texts of bytes, and bytes of texts. Make it with NewShelf.
type Shelf struct {
	mu     sync.Mutex                      // guards all below
	groups map[string][]weak.Pointer[base] // the newest last
	ground *base                           // nil until enough was seen
	held   [handful]*dictionary            // those that were used last, so that the collector leaves them
	next   int                             // in held
	census census
}

const (
	// handful is how many bases are kept ready for use. One has the size of an object, and
	// that of samples 32 KB more. Any other one is made ready when it is needed, unless the
	// collector has not come by since the last time.
	handful = 16

	// usual is how many times smaller a text is than its bytes if the base of its group
	// suits it. Where it is not, the ground may suit it better.
	usual = 6

	// shapes is the largest number of bases of a group. One controller may have objects of several
	// shapes, such as the head and the workers of a RayCluster.
	shapes = 8

	// tries is the largest number of bases that a text is compressed against. Each takes time for every
	// object without a sibling.
	tries = 2

	// smallest is from what size on it is worth while to compress.
	smallest = 64

	// largest is the size of the largest base. Dictionaries of S2 are no larger.
	largest = s2.MaxDictSize - 1
)

// NewShelf returns an empty shelf.
func NewShelf() *Shelf { return &Shelf{groups: make(map[string][]weak.Pointer[base])} }

// Pack returns a text of raw with that prefix. Group names the siblings of raw; it is empty
// where there are none. Neither prefix nor raw is kept.
func (s *Shelf) Pack(group string, prefix, raw []byte) Text {
	ground, near := s.bases(group, raw)
	switch {
	case len(raw) < smallest:
		return plainText(prefix, raw)
	case group == "" || len(raw) > largest:
		return s.against(ground, prefix, raw)
	}
	var text Text
	for n, b := range near {
		if b == nil {
			break
		}
		if made := s.against(b, prefix, raw); n == 0 || len(made.data) < len(text.data) {
			text = made
		}
		if len(text.data)-len(prefix) <= len(raw)/usual {
			return text
		}
	}
	if alone := s.against(ground, prefix, raw); near[0] == nil || len(alone.data) < len(text.data) {
		return s.found(group, alone, raw)
	}
	return text
}

// bases returns the ground, and the bases of a group whose sizes are nearest to that of raw, the nearest
// first. It takes note of raw.
func (s *Shelf) bases(group string, raw []byte) (ground *base, near [tries]*base) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if samples := s.census.note(raw); samples != nil {
		next := uint32(1)
		if s.ground != nil {
			next += s.ground.ground
		}
		s.ground = &base{Text: plainText(nil, samples), ground: next}
	}
	apart := func(b *base) int { return max(int(b.size)-len(raw), len(raw)-int(b.size)) }
	for _, at := range slices.Backward(s.groups[group]) {
		b := at.Value()
		for n := 0; n < tries && b != nil; n++ {
			if near[n] == nil || apart(b) < apart(near[n]) {
				near[n], b = b, near[n]
			}
		}
	}
	return s.ground, near
}

// found makes text, which is raw against the ground, a base of its group.
func (s *Shelf) found(group string, text Text, raw []byte) Text {
	own := &base{Text: text}
	own.data, own.head, own.sum = text.data[text.head:], 0, sumOf(nil, raw)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.join(group, own)
	return Text{data: text.data, base: own, size: text.size, head: text.head, sum: text.sum, form: founder}
}

// join adds b to the bases of a group, and removes the oldest if there are too many. It is called under mu.
func (s *Shelf) join(group string, b *base) {
	group = strings.Clone(group)
	at, bases := weak.Make(b), s.groups[group]
	if len(bases) == shapes {
		bases = slices.Delete(bases, 0, 1)
	}
	s.groups[group] = append(bases, at)
	runtime.AddCleanup(b, s.forget, bygone{group, at})
}

// bygone is a base that is gone.
type bygone struct {
	group string
	base  weak.Pointer[base]
}

// forget removes a base that is gone, and its group if it was the last one.
func (s *Shelf) forget(b bygone) {
	s.mu.Lock()
	defer s.mu.Unlock()
	bases := slices.DeleteFunc(s.groups[b.group], func(at weak.Pointer[base]) bool { return at == b.base })
	if s.groups[b.group] = bases; len(bases) == 0 {
		delete(s.groups, b.group)
	}
}

// Groups is how many groups have a base.
func (s *Shelf) Groups() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.groups)
}

// scratch is memory to compress into.
var scratch = sync.Pool{New: func() any { return new([]byte) }}

// largestScratch is how much of it is kept between uses.
const largestScratch = 1 << 17

// against compresses raw against a base, or on its own.
func (s *Shelf) against(b *base, prefix, raw []byte) Text {
	var dict *dictionary
	if b != nil {
		var err error
		if dict, err = s.dictionary(b); err != nil {
			b = nil // nothing more is built on it; who reads what was will hear of it
		}
	}
	room := scratch.Get().(*[]byte)
	defer func() {
		if cap(*room) <= largestScratch {
			scratch.Put(room)
		}
	}()
	*room = grow((*room)[:0], s2.MaxEncodedLen(len(raw)))
	data := (*room)[:cap(*room)]
	switch {
	case b == nil:
		data = s2.Encode(data, raw)
	case b.ground == 0 && fitBeside(len(dict.raw), len(raw)):
		data = beside(data[:0], dict.raw, raw)
	default:
		data = dict.Encode(data, raw)
	}
	if len(data) >= len(raw) {
		return plainText(prefix, raw)
	}
	return Text{data: join(prefix, data), base: b, size: uint32(len(raw)), head: uint32(len(prefix)), sum: sumOf(prefix, raw), form: packed}
}

func plainText(prefix, raw []byte) Text {
	return Text{data: join(prefix, raw), size: uint32(len(raw)), head: uint32(len(prefix)), sum: sumOf(prefix, raw)}
}

// join returns a string that has memory of its own.
func join(a, b []byte) string {
	var s strings.Builder
	s.Grow(len(a) + len(b))
	s.Write(a)
	s.Write(b)
	return s.String()
}

// dictionary returns a base that is ready for use.
func (s *Shelf) dictionary(b *base) (*dictionary, error) {
	s.mu.Lock()
	dict := b.ready.Value()
	s.mu.Unlock()
	if dict != nil {
		return dict, nil
	}
	raw, err := s.Unpack(append(make([]byte, 0, int(b.size)+1+slack), 0), b.Text)
	if err != nil {
		return nil, err
	}
	dict = &dictionary{s2.NewDict(raw), raw[1:]}
	if dict.Dict == nil {
		return nil, fmt.Errorf("%w: a base of %d bytes", ErrDamaged, len(raw)-1)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if other := b.ready.Value(); other != nil {
		return other, nil
	}
	b.ready = weak.Make(dict)
	s.held[s.next] = dict
	s.next = (s.next + 1) % handful
	return dict, nil
}

// slack is what S2 wants behind the bytes of a dictionary, so that it need not copy them.
const slack = 16

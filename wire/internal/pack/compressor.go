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

// Compressor compresses bytes to texts, and expands texts. Make it with NewCompressor.
type Compressor struct {
	mu      sync.Mutex                      // guards all below
	groups  map[string][]weak.Pointer[base] // the newest last
	samples *base                           // nil until enough was seen
	recent  [recentBases]*dictionary        // those that were used last, kept from the collector
	next    int                             // in recent
	sampler sampler
}

const (
	// recentBases is how many bases are kept expanded. One has the size of an object, and
	// that of samples 32 KB more. Any other one is expanded when it is needed, unless the
	// collector has not run since the last time.
	recentBases = 16

	// goodRatio is how many times smaller a text is than its bytes if the base of its group
	// suits it. If it is not, the samples may suit it better.
	goodRatio = 6

	// maxBases is the largest number of bases of a group. One controller may have objects of several
	// shapes, such as the head and the workers of a RayCluster.
	maxBases = 8

	// maxTries is the largest number of bases that a text is compressed against. Each takes time for every
	// object without a sibling.
	maxTries = 2

	// minPacked is the size from which compression pays.
	minPacked = 64

	// maxBase is the size of the largest base. Dictionaries of S2 are no larger.
	maxBase = s2.MaxDictSize - 1
)

// NewCompressor returns a Compressor that has seen nothing.
func NewCompressor() *Compressor { return &Compressor{groups: make(map[string][]weak.Pointer[base])} }

// Pack returns a text of raw with that prefix. Group names the siblings of raw; it is empty
// where there are none. Neither prefix nor raw is kept.
func (c *Compressor) Pack(group string, prefix, raw []byte) Text {
	samples, near := c.bases(group, raw)
	switch {
	case len(raw) < minPacked:
		return plainText(prefix, raw)
	case group == "" || len(raw) > maxBase:
		return c.compress(samples, prefix, raw)
	}
	var text Text
	for n, b := range near {
		if b == nil {
			break
		}
		if made := c.compress(b, prefix, raw); n == 0 || len(made.data) < len(text.data) {
			text = made
		}
		if len(text.data)-len(prefix) <= len(raw)/goodRatio {
			return text
		}
	}
	if alone := c.compress(samples, prefix, raw); near[0] == nil || len(alone.data) < len(text.data) {
		return c.newBase(group, alone, raw)
	}
	return text
}

// bases returns the samples, and the bases of a group whose sizes are nearest to that of raw, the nearest
// first. It takes note of raw.
func (c *Compressor) bases(group string, raw []byte) (samples *base, near [maxTries]*base) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if taken := c.sampler.add(raw); taken != nil {
		next := uint32(1)
		if c.samples != nil {
			next += c.samples.samples
		}
		c.samples = &base{Text: plainText(nil, taken), samples: next}
	}
	apart := func(b *base) int { return max(int(b.size)-len(raw), len(raw)-int(b.size)) }
	for _, at := range slices.Backward(c.groups[group]) {
		b := at.Value()
		for n := 0; n < maxTries && b != nil; n++ {
			if near[n] == nil || apart(b) < apart(near[n]) {
				near[n], b = b, near[n]
			}
		}
	}
	return c.samples, near
}

// newBase makes text, which is raw compressed against the samples, a base of its group.
func (c *Compressor) newBase(group string, text Text, raw []byte) Text {
	own := &base{Text: text}
	own.data, own.head, own.sum = text.data[text.head:], 0, sumOf(nil, raw)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.addBase(group, own)
	return Text{data: text.data, base: own, size: text.size, head: text.head, sum: text.sum, form: isBase}
}

// addBase adds b to the bases of a group, and removes the oldest if there are too many. It is called under mu.
func (c *Compressor) addBase(group string, b *base) {
	group = strings.Clone(group)
	at, bases := weak.Make(b), c.groups[group]
	if len(bases) == maxBases {
		bases = slices.Delete(bases, 0, 1)
	}
	c.groups[group] = append(bases, at)
	runtime.AddCleanup(b, c.forget, deadBase{group, at})
}

// deadBase identifies a base that is gone.
type deadBase struct {
	group string
	base  weak.Pointer[base]
}

// forget removes a base that is gone, and its group if it was the last one.
func (c *Compressor) forget(b deadBase) {
	c.mu.Lock()
	defer c.mu.Unlock()
	bases := slices.DeleteFunc(c.groups[b.group], func(at weak.Pointer[base]) bool { return at == b.base })
	if c.groups[b.group] = bases; len(bases) == 0 {
		delete(c.groups, b.group)
	}
}

// groupCount is how many groups have a base.
func (c *Compressor) groupCount() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.groups)
}

// scratch is memory to compress into.
var scratch = sync.Pool{New: func() any { return new([]byte) }}

// maxReusedScratch is how much of it is kept between uses.
const maxReusedScratch = 1 << 17

// compress compresses raw against a base, or on its own.
func (c *Compressor) compress(b *base, prefix, raw []byte) Text {
	var dict *dictionary
	if b != nil {
		var err error
		if dict, err = c.dictionary(b); err != nil {
			b = nil // it is damaged and no longer used; reading its texts fails
		}
	}
	room := scratch.Get().(*[]byte)
	defer func() {
		if cap(*room) <= maxReusedScratch {
			scratch.Put(room)
		}
	}()
	*room = grow((*room)[:0], s2.MaxEncodedLen(len(raw)))
	data := (*room)[:cap(*room)]
	switch {
	case b == nil:
		data = s2.Encode(data, raw)
	case b.samples == 0 && canDelta(len(dict.raw), len(raw)):
		data = appendDelta(data[:0], dict.raw, raw)
	default:
		data = dict.Encode(data, raw)
	}
	if len(data) >= len(raw) {
		return plainText(prefix, raw)
	}
	return Text{data: concat(prefix, data), base: b, size: uint32(len(raw)), head: uint32(len(prefix)), sum: sumOf(prefix, raw), form: packed}
}

func plainText(prefix, raw []byte) Text {
	return Text{data: concat(prefix, raw), size: uint32(len(raw)), head: uint32(len(prefix)), sum: sumOf(prefix, raw)}
}

// concat returns a string that has memory of its own.
func concat(a, b []byte) string {
	var s strings.Builder
	s.Grow(len(a) + len(b))
	s.Write(a)
	s.Write(b)
	return s.String()
}

// dictionary returns a base, expanded.
func (c *Compressor) dictionary(b *base) (*dictionary, error) {
	c.mu.Lock()
	dict := b.dict.Value()
	c.mu.Unlock()
	if dict != nil {
		return dict, nil
	}
	raw, err := c.Unpack(append(make([]byte, 0, int(b.size)+1+dictSlack), 0), b.Text)
	if err != nil {
		return nil, err
	}
	dict = &dictionary{s2.NewDict(raw), raw[1:]}
	if dict.Dict == nil {
		return nil, fmt.Errorf("%w: a base of %d bytes", ErrDamaged, len(raw)-1)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if other := b.dict.Value(); other != nil {
		return other, nil
	}
	b.dict = weak.Make(dict)
	c.recent[c.next] = dict
	c.next = (c.next + 1) % recentBases
	return dict, nil
}

// dictSlack is what S2 wants behind the bytes of a dictionary, so that it need not copy them.
const dictSlack = 16

// sampler takes samples of the objects that are packed: twelve of the first
// thirty-two objects, then twelve that are evenly spread over the next hundred, and so on
// over periods that are each four times as long as the one before. So the samples follow
// changes, ever more slowly, and few versions of them are in use at any time.
type sampler struct {
	seen    int // objects
	next    int // which of them is the next sample
	period  int // the end of the period
	samples []byte
	taken   int
}

const (
	// sampleCount is how many objects are sampled at a time.
	sampleCount = 12

	// sampleSize is how much of each of them it has.
	sampleSize = maxBase / sampleCount

	// firstPeriod is how many objects there have to be before there are samples. They take up to
	// 64 KB, and 32 KB once they are used.
	firstPeriod = 32
)

// add sees one more object. It returns the new samples when a period ends.
func (s *sampler) add(raw []byte) (samples []byte) {
	if s.period == 0 {
		s.period = firstPeriod
	}
	s.seen++
	if s.seen > s.next && s.taken < sampleCount {
		s.samples = append(s.samples, raw[:min(len(raw), sampleSize)]...)
		s.taken++
		s.next += max(s.period*3/4, firstPeriod/2) / sampleCount
	}
	if s.seen < s.period {
		return nil
	}
	samples = s.samples
	*s = sampler{seen: s.seen, next: s.seen, period: s.period * 4}
	if len(samples) < minPacked {
		return nil
	}
	return samples
}

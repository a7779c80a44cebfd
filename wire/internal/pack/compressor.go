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

// A Compressor compresses bytes into texts, and expands texts. Use [NewCompressor] to create one.
type Compressor struct {
	mu      sync.Mutex                      // guards the fields below
	groups  map[string][]weak.Pointer[base] // the newest last
	samples *base                           // nil until firstPeriod objects have been seen
	recent  [recentBases]*dictionary        // most recently used, kept alive
	next    int                             // index in recent
	sampler sampler
}

const (
	// recentBases is the number of bases kept expanded. A base is as large as an object; samples are 32 KB
	// larger. Other bases are expanded when needed, unless they were last used after the most recent
	// garbage collection.
	recentBases = 16

	// goodRatio is the minimum compression ratio for a base in the text's group to be considered a good
	// match. Below it, the samples may be a better one.
	goodRatio = 6

	// maxBases is the maximum number of bases per group. A controller may own objects of different shapes,
	// such as the head and the workers of a RayCluster.
	maxBases = 8

	// maxTries is the maximum number of bases to try for a text. Objects without a sibling pay for every
	// attempt.
	maxTries = 2

	// minPacked is the minimum size for which compression pays off.
	minPacked = 64

	// maxBase is the maximum size of a base, a limit imposed by S2.
	maxBase = s2.MaxDictSize - 1
)

// NewCompressor returns an empty Compressor.
func NewCompressor() *Compressor { return &Compressor{groups: make(map[string][]weak.Pointer[base])} }

// Pack compresses raw and returns it as a text with the given prefix. group identifies raw's
// siblings; it is empty if there are none. The text does not refer to prefix or raw.
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

// bases returns the samples, and the bases of a group that are closest to raw in size, closest first. It
// also passes raw to the sampler.
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

// newBase makes text a base of its group. text is raw compressed against the samples.
func (c *Compressor) newBase(group string, text Text, raw []byte) Text {
	own := &base{Text: text}
	own.data, own.head, own.sum = text.data[text.head:], 0, sumOf(nil, raw)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.addBase(group, own)
	return Text{data: text.data, base: own, size: text.size, head: text.head, sum: text.sum, form: isBase}
}

// addBase adds b to a group's bases, and removes the oldest if there are too many. It requires mu.
func (c *Compressor) addBase(group string, b *base) {
	group = strings.Clone(group)
	at, bases := weak.Make(b), c.groups[group]
	if len(bases) == maxBases {
		bases = slices.Delete(bases, 0, 1)
	}
	c.groups[group] = append(bases, at)
	runtime.AddCleanup(b, c.forget, deadBase{group, at})
}

// deadBase identifies a base that has been collected.
type deadBase struct {
	group string
	base  weak.Pointer[base]
}

// forget removes a collected base, and its group if it was the last one.
func (c *Compressor) forget(b deadBase) {
	c.mu.Lock()
	defer c.mu.Unlock()
	bases := slices.DeleteFunc(c.groups[b.group], func(at weak.Pointer[base]) bool { return at == b.base })
	if c.groups[b.group] = bases; len(bases) == 0 {
		delete(c.groups, b.group)
	}
}

// groupCount returns how many groups have a base.
func (c *Compressor) groupCount() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.groups)
}

// scratch contains buffers to compress into.
var scratch = sync.Pool{New: func() any { return new([]byte) }}

// maxReusedScratch is the maximum size of a buffer that is kept in scratch.
const maxReusedScratch = 1 << 17

// compress compresses raw against a base, or on its own if b is nil.
func (c *Compressor) compress(b *base, prefix, raw []byte) Text {
	var dict *dictionary
	if b != nil {
		var err error
		if dict, err = c.dictionary(b); err != nil {
			b = nil // a corrupt base is not used again; reading its texts fails
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

// concat returns a string with its own memory.
func concat(a, b []byte) string {
	var s strings.Builder
	s.Grow(len(a) + len(b))
	s.Write(a)
	s.Write(b)
	return s.String()
}

// dictionary returns a base as an expanded dictionary.
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
		return nil, fmt.Errorf("%w: invalid base of %d bytes", ErrDamaged, len(raw)-1)
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

// dictSlack is the spare capacity that S2 needs after a dictionary's bytes to avoid copying them.
const dictSlack = 16

// sampler takes samples of the objects being packed: twelve of the first thirty-two objects, then
// twelve spread evenly over the next ninety-six, and so on, with each period ending at four times
// as many objects as the previous one. This way the samples keep up with changes, though ever more slowly,
// and only a few versions of them are in use at any time.
type sampler struct {
	seen    int // number of objects seen
	next    int // number of the next object to sample
	period  int // number of objects after which the period ends
	samples []byte
	taken   int
}

const (
	// sampleCount is the number of objects sampled per period.
	sampleCount = 12

	// sampleSize is the number of bytes kept from each sampled object.
	sampleSize = maxBase / sampleCount

	// firstPeriod is the number of objects that must be seen before there are samples. Samples use
	// up to 64 KB, and another 32 KB once they are used.
	firstPeriod = 32
)

// add counts another object. It returns the new samples at the end of a period.
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

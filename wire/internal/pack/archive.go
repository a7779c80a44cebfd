package pack

import (
	"encoding/binary"
	"fmt"
)

// An Archive writes texts in a form that another [Compressor] can read without expanding them. Each base is
// written along with the first text that needs it, and from then on is referred to by number:
//
//	text form, checksum, size, prefix, base, and the bytes unless it is a base itself
//	base  its number; 0 for none; the next one where its own text follows
//
// The zero Archive is ready to use. An Archive is not safe for concurrent use.
type Archive struct{ numbers map[*base]uint64 }

// Append appends t to dst.
func (a *Archive) Append(dst []byte, t Text) []byte {
	dst = binary.LittleEndian.AppendUint32(append(dst, byte(t.form)), t.sum)
	dst = binary.AppendUvarint(dst, uint64(t.size))
	dst = AppendString(dst, t.Prefix())
	dst = a.appendBase(dst, t.base)
	if t.form == isBase {
		return dst
	}
	return AppendString(dst, t.data[t.head:])
}

func (a *Archive) appendBase(dst []byte, b *base) []byte {
	if b == nil {
		return append(dst, 0)
	}
	if number, ok := a.numbers[b]; ok {
		return binary.AppendUvarint(dst, number)
	}
	if a.numbers == nil {
		a.numbers = make(map[*base]uint64)
	}
	var own []byte
	if b.samples == 0 { // the samples it was compressed against, whose number is lower
		own = a.appendBase(nil, b.base)
	}
	number := uint64(len(a.numbers) + 1)
	a.numbers[b] = number
	dst = binary.AppendUvarint(dst, number)
	dst = binary.LittleEndian.AppendUint32(append(dst, byte(b.form)), b.sum)
	dst = binary.AppendUvarint(dst, uint64(b.samples))
	dst = binary.AppendUvarint(dst, uint64(b.size))
	dst = append(dst, own...)
	return AppendString(dst, b.data)
}

// AppendString appends the length of s, followed by s.
func AppendString[S string | []byte](dst []byte, s S) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// ArchiveReader reads the output of an [Archive]. Its texts do not refer to the input. It is not
// safe for concurrent use.
type ArchiveReader struct {
	input
	compressor *Compressor
	bases      []*base
}

// NewArchiveReader returns a reader for raw, whose texts c can expand.
func (c *Compressor) NewArchiveReader(raw []byte) *ArchiveReader {
	return &ArchiveReader{input: input{rest: raw}, compressor: c}
}

// maxText is the largest expanded size that a text may claim: twice the size of the largest object read from
// an API server.
const maxText = 32 << 20

// Text reads a text that belongs to a group. It fails with ErrDamaged if it can tell, without expanding the
// bytes, that they were not written by an Archive.
func (x *ArchiveReader) Text(group string) (Text, error) {
	form, sum, size, prefix := form(x.Byte()), x.uint32(), x.Uvarint(), x.Bytes()
	base, err := x.base(false)
	if err != nil {
		return Text{}, err
	}
	if form == isBase {
		if base == nil || size != uint64(base.size) || x.failed {
			return Text{}, errDamaged("first text of a group")
		}
		data := concat(prefix, []byte(base.data))
		base.data = data[len(prefix):] // not visible to other goroutines yet
		x.compressor.addToGroup(group, base)
		return Text{data: data, base: base, size: base.size, head: uint32(len(prefix)), sum: sum, form: isBase}, nil
	}
	data := x.Bytes()
	if x.failed || !fits(form, size, len(data), base) || len(prefix) > maxText {
		return Text{}, errDamaged("text")
	}
	return Text{data: concat(prefix, data), base: base, size: uint32(size), head: uint32(len(prefix)), sum: sum, form: form}, nil
}

// fits reports whether these properties are plausible for a text.
func fits(form form, size uint64, held int, base *base) bool {
	if form == plain {
		return base == nil && size == uint64(held) && held <= maxText
	}
	return form == packed && size <= maxText && held <= int(size)
}

// base reads a base, or the number of a base that was read before. If onlySamples is set, it accepts only
// samples.
func (x *ArchiveReader) base(onlySamples bool) (*base, error) {
	number := x.Uvarint()
	switch {
	case x.failed:
		return nil, errDamaged("base")
	case number == 0:
		return nil, nil
	case number <= uint64(len(x.bases)):
		have := x.bases[number-1]
		if onlySamples && have.samples == 0 {
			return nil, errDamaged("samples")
		}
		return have, nil
	}
	form, sum, samples, size := form(x.Byte()), x.uint32(), uint32(x.Uvarint()), x.Uvarint()
	if samples > 0 && form != plain || onlySamples && samples == 0 {
		return nil, errDamaged("samples")
	}
	var own *base
	if samples == 0 {
		var err error
		if own, err = x.base(true); err != nil {
			return nil, err
		}
	}
	data := x.Bytes()
	if x.failed || number != uint64(len(x.bases)+1) || !fits(form, size, len(data), own) || size > maxBase {
		return nil, errDamaged("base")
	}
	b := &base{Text: Text{data: string(data), base: own, size: uint32(size), sum: sum, form: form}, samples: samples}
	x.bases = append(x.bases, b)
	if samples > 0 {
		x.compressor.addSamples(b)
	}
	return b, nil
}

// addToGroup adds b to a group's bases, for later texts.
func (c *Compressor) addToGroup(group string, b *base) {
	if group == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.addBase(group, b)
}

// addSamples makes b the current samples unless there are newer ones.
func (c *Compressor) addSamples(b *base) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.samples == nil || c.samples.samples < b.samples {
		c.samples = b
	}
}

func errDamaged(what string) error { return fmt.Errorf("%w: invalid %s", ErrDamaged, what) }

// input is the bytes being read. After the first failed read, all reads return zero.
type input struct {
	rest   []byte
	failed bool
}

// Failed reports whether any read failed.
func (i *input) Failed() bool { return i.failed }

// Left returns the number of unread bytes.
func (i *input) Left() int { return len(i.rest) }

// Byte reads one byte.
func (i *input) Byte() byte {
	if len(i.rest) == 0 {
		i.failed = true
		return 0
	}
	b := i.rest[0]
	i.rest = i.rest[1:]
	return b
}

func (i *input) uint32() uint32 {
	if len(i.rest) < 4 {
		i.failed, i.rest = true, nil
		return 0
	}
	n := binary.LittleEndian.Uint32(i.rest)
	i.rest = i.rest[4:]
	return n
}

// Uvarint reads an unsigned varint.
func (i *input) Uvarint() uint64 {
	n, size := binary.Uvarint(i.rest)
	if size <= 0 {
		i.failed, i.rest = true, nil
		return 0
	}
	i.rest = i.rest[size:]
	return n
}

// Bytes reads bytes written by AppendString. The result is part of the input.
func (i *input) Bytes() []byte {
	n := i.Uvarint()
	if n > uint64(len(i.rest)) {
		i.failed, i.rest = true, nil
		return nil
	}
	s := i.rest[:n:n]
	i.rest = i.rest[n:]
	return s
}

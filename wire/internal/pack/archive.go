package pack

import (
	"encoding/binary"
	"fmt"
)

// An Archive writes texts so that another shelf can take them back as they are. Each base
// is written with the first text that needs it, and has a number from then on:
//
//	text  form, checksum, size, prefix, base, and the bytes unless it is a founder
//	base  its number; 0 for none; the next one where its own text follows
//
// The zero Archive has written nothing. It belongs to one goroutine.
type Archive struct{ numbers map[*base]uint64 }

// Append appends t.
func (a *Archive) Append(dst []byte, t Text) []byte {
	dst = binary.LittleEndian.AppendUint32(append(dst, byte(t.form)), t.sum)
	dst = binary.AppendUvarint(dst, uint64(t.size))
	dst = AppendString(dst, t.Prefix())
	dst = a.appendBase(dst, t.base)
	if t.form == founder {
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
	if b.ground == 0 { // of what it is compressed against, which has a lower number
		own = a.appendBase(nil, b.base)
	}
	number := uint64(len(a.numbers) + 1)
	a.numbers[b] = number
	dst = binary.AppendUvarint(dst, number)
	dst = binary.LittleEndian.AppendUint32(append(dst, byte(b.form)), b.sum)
	dst = binary.AppendUvarint(dst, uint64(b.ground))
	dst = binary.AppendUvarint(dst, uint64(b.size))
	dst = append(dst, own...)
	return AppendString(dst, b.data)
}

// AppendString appends the length of s, and s.
func AppendString[S string | []byte](dst []byte, s S) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// Extract reads what an Archive wrote. Its texts keep nothing of the bytes that are read.
// It belongs to one goroutine.
type Extract struct {
	Input
	shelf *Shelf
	bases []*base
}

// NewExtract returns one that reads raw for a shelf.
func (s *Shelf) NewExtract(raw []byte) *Extract { return &Extract{Input: Input{rest: raw}, shelf: s} }

// largestText is how many bytes a text may say that it comes to: twice what is read of an
// API server.
const largestText = 32 << 20

// Text reads a text of a group. It fails with ErrDamaged where the bytes are none that an
// Archive wrote, as far as can be told without expanding them.
func (x *Extract) Text(group string) (Text, error) {
	form, sum, size, prefix := form(x.Byte()), x.uint32(), x.Uvarint(), x.Bytes()
	base, err := x.base(false)
	if err != nil {
		return Text{}, err
	}
	if form == founder {
		if base == nil || size != uint64(base.size) || x.failed {
			return Text{}, damaged("a first of a group")
		}
		data := join(prefix, []byte(base.data))
		base.data = data[len(prefix):] // nobody else has it yet
		x.shelf.adopt(group, base)
		return Text{data: data, base: base, size: base.size, head: uint32(len(prefix)), sum: sum, form: founder}, nil
	}
	data := x.Bytes()
	if x.failed || !fits(form, size, len(data), base) || len(prefix) > largestText {
		return Text{}, damaged("a text")
	}
	return Text{data: join(prefix, data), base: base, size: uint32(size), head: uint32(len(prefix)), sum: sum, form: form}, nil
}

// fits reports whether a text may be like that.
func fits(form form, size uint64, held int, base *base) bool {
	if form == plain {
		return base == nil && size == uint64(held) && held <= largestText
	}
	return form == packed && size <= largestText && held <= int(size)
}

// base reads a base, or the number of one that was read: a ground if no other may be there.
func (x *Extract) base(onlyGround bool) (*base, error) {
	number := x.Uvarint()
	switch {
	case x.failed:
		return nil, damaged("a base")
	case number == 0:
		return nil, nil
	case number <= uint64(len(x.bases)):
		have := x.bases[number-1]
		if onlyGround && have.ground == 0 {
			return nil, damaged("a ground")
		}
		return have, nil
	}
	form, sum, ground, size := form(x.Byte()), x.uint32(), uint32(x.Uvarint()), x.Uvarint()
	if ground > 0 && form != plain || onlyGround && ground == 0 {
		return nil, damaged("a ground")
	}
	var own *base
	if ground == 0 {
		var err error
		if own, err = x.base(true); err != nil {
			return nil, err
		}
	}
	data := x.Bytes()
	if x.failed || number != uint64(len(x.bases)+1) || !fits(form, size, len(data), own) || size > largest {
		return nil, damaged("a base")
	}
	b := &base{Text: Text{data: string(data), base: own, size: uint32(size), sum: sum, form: form}, ground: ground}
	x.bases = append(x.bases, b)
	if ground > 0 {
		x.shelf.settle(b)
	}
	return b, nil
}

// adopt makes b a base of its group, for the texts that come.
func (s *Shelf) adopt(group string, b *base) {
	if group == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.join(group, b)
}

// settle makes b the ground if there is no later one.
func (s *Shelf) settle(b *base) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ground == nil || s.ground.ground < b.ground {
		s.ground = b
	}
}

func damaged(what string) error { return fmt.Errorf("%w: %s is none", ErrDamaged, what) }

// Input is bytes that are being read. After the first part that is not there, all that is
// read is zero.
type Input struct {
	rest   []byte
	failed bool
}

// Failed reports whether something was not there.
func (i *Input) Failed() bool { return i.failed }

// Left is how many bytes have not been read.
func (i *Input) Left() int { return len(i.rest) }

// Byte reads one byte.
func (i *Input) Byte() byte {
	if len(i.rest) == 0 {
		i.failed = true
		return 0
	}
	b := i.rest[0]
	i.rest = i.rest[1:]
	return b
}

func (i *Input) uint32() uint32 {
	if len(i.rest) < 4 {
		i.failed, i.rest = true, nil
		return 0
	}
	n := binary.LittleEndian.Uint32(i.rest)
	i.rest = i.rest[4:]
	return n
}

// Uvarint reads a number.
func (i *Input) Uvarint() uint64 {
	n, size := binary.Uvarint(i.rest)
	if size <= 0 {
		i.failed, i.rest = true, nil
		return 0
	}
	i.rest = i.rest[size:]
	return n
}

// Bytes reads what AppendString wrote, which is a part of the bytes that are read.
func (i *Input) Bytes() []byte {
	n := i.Uvarint()
	if n > uint64(len(i.rest)) {
		i.failed, i.rest = true, nil
		return nil
	}
	s := i.rest[:n:n]
	i.rest = i.rest[n:]
	return s
}

package wire

import (
	"encoding/binary"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/scheme"
	"github.com/millrace-dev/millrace/wire/internal/frame"
	"github.com/millrace-dev/millrace/wire/internal/protobuf"
)

// message is a parsed protobuf message, to be encoded in another form.
type message struct{ fields []*messageField }

// messageField is a field of a message: a number, bytes, or a message.
type messageField struct {
	tag    uint64
	number uint64
	bytes  []byte
	inner  *message
	waste  int // extra bytes in the encoding of its numbers
}

// takeApart parses the message raw, as deeply as table knows its messages.
func takeApart(t testing.TB, table *protobuf.Table, raw []byte) *message {
	t.Helper()
	m := new(message)
	for len(raw) > 0 {
		f, rest, err := protobuf.NextField(raw)
		require.NoError(t, err)
		tag, n := binary.Uvarint(raw)
		part := &messageField{tag: tag, bytes: f.Bytes}
		if f.Wire == frame.WireVarint {
			part.number, _ = binary.Uvarint(raw[n:])
		}
		if inner := table.Message(f.Number); inner != nil {
			part.inner = takeApart(t, inner, f.Bytes)
		}
		m.fields, raw = append(m.fields, part), rest
	}
	return m
}

// all returns m and every message in it.
func (m *message) all() []*message {
	all := []*message{m}
	for _, f := range m.fields {
		if f.inner != nil {
			all = append(all, f.inner.all()...)
		}
	}
	return all
}

func (m *message) encode() (out []byte) {
	for _, f := range m.fields {
		out = appendLong(out, f.tag, f.waste)
		if f.inner != nil {
			f.bytes = f.inner.encode()
		}
		switch f.tag & 7 {
		case frame.WireVarint:
			out = appendLong(out, f.number, f.waste)
		case frame.WireBytes:
			out = append(appendLong(out, uint64(len(f.bytes)), f.waste), f.bytes...)
		default:
			out = append(out, f.bytes...)
		}
	}
	return out
}

// appendLong appends a varint with waste more bytes than necessary.
func appendLong(out []byte, v uint64, waste int) []byte {
	out = binary.AppendUvarint(out, v)
	for range waste {
		out[len(out)-1] |= 0x80
		out = append(out, 0)
	}
	return out
}

// copyOf returns a separate field with the same content.
func (f *messageField) copyOf() *messageField {
	c := *f
	if f.inner != nil {
		c.inner = new(message)
		for _, inner := range f.inner.fields {
			c.inner.fields = append(c.inner.fields, inner.copyOf())
		}
	}
	return &c
}

// otherForms are the ways in which another encoder, or a broken one, could have written a message.
var otherForms = map[string]func(random *rand.Rand, m *message){
	"unknown field": func(random *rand.Rand, m *message) {
		number := []uint64{19, 100, 4000, 5000, 1<<29 - 1, 0, 1 << 33}[random.IntN(7)]
		f := &messageField{tag: number<<3 | uint64(random.IntN(8)), number: random.Uint64(), bytes: []byte("12345678")}
		if f.tag&7 == frame.WireFixed32 {
			f.bytes = f.bytes[:4]
		}
		m.fields = slices.Insert(m.fields, random.IntN(len(m.fields)+1), f)
	},
	"unknown group": func(random *rand.Rand, m *message) {
		group := []*messageField{{tag: 90<<3 | 3}, {tag: 1 << 3, number: 5}, {tag: 90<<3 | 4}}
		m.fields = slices.Insert(m.fields, random.IntN(len(m.fields)+1), group...)
	},
	"any order": func(random *rand.Rand, m *message) {
		random.Shuffle(len(m.fields), func(i, j int) { m.fields[i], m.fields[j] = m.fields[j], m.fields[i] })
	},
	"twice": func(random *rand.Rand, m *message) {
		if n := len(m.fields); n > 0 {
			m.fields = slices.Insert(m.fields, random.IntN(n+1), m.fields[random.IntN(n)].copyOf())
		}
	},
	"all twice": func(random *rand.Rand, m *message) {
		for _, f := range m.fields {
			again := f.copyOf()
			if again.inner == nil && random.IntN(2) == 0 {
				again.bytes = []byte("another text, of another length"[:random.IntN(32)])
			}
			m.fields = append(m.fields, again)
		}
	},
	"a part of it twice": func(random *rand.Rand, m *message) {
		for _, f := range m.fields {
			if f.inner != nil {
				again := f.copyOf()
				again.inner.fields = slices.DeleteFunc(again.inner.fields, func(*messageField) bool { return random.IntN(2) == 0 })
				m.fields = append(m.fields, again)
			}
		}
	},
	"moved": func(random *rand.Rand, m *message) {
		if n := len(m.fields); n > 0 {
			at := random.IntN(n)
			f := m.fields[at]
			m.fields = slices.Insert(slices.Delete(m.fields, at, at+1), random.IntN(n), f)
		}
	},
	"left out": func(random *rand.Rand, m *message) {
		if n := len(m.fields); n > 0 {
			at := random.IntN(n)
			m.fields = slices.Delete(m.fields, at, at+1)
		}
	},
	"empty": func(random *rand.Rand, m *message) {
		if n := len(m.fields); n > 0 {
			f := m.fields[random.IntN(n)]
			f.inner, f.bytes, f.number = nil, nil, 0
		}
	},
	"long numbers": func(random *rand.Rand, m *message) {
		for _, f := range m.fields {
			f.waste = random.IntN(12)
		}
	},
	"a long number": func(random *rand.Rand, m *message) {
		if n := len(m.fields); n > 0 {
			m.fields[random.IntN(n)].waste = 1
		}
	},
	"packed lists": func(_ *rand.Rand, m *message) {
		var packed []*messageField
		at := make(map[uint64]*messageField)
		for _, f := range m.fields {
			switch list := at[f.tag]; {
			case f.tag&7 != frame.WireVarint:
				packed = append(packed, f)
			case list == nil:
				list = &messageField{tag: f.tag&^7 | frame.WireBytes, bytes: binary.AppendUvarint(nil, f.number)}
				at[f.tag], packed = list, append(packed, list)
			default:
				list.bytes = binary.AppendUvarint(list.bytes, f.number)
			}
		}
		m.fields = packed
	},
	"another wire type": func(random *rand.Rand, m *message) {
		if n := len(m.fields); n > 0 {
			f := m.fields[random.IntN(n)]
			f.tag = f.tag&^7 | uint64(random.IntN(6))
		}
	},
	"large numbers": func(random *rand.Rand, m *message) {
		for _, f := range m.fields {
			f.number = random.Uint64() >> random.IntN(64)
			if random.IntN(2) == 0 {
				f.number = 1 << random.IntN(64)
			}
		}
	},
	"another's bytes": func(random *rand.Rand, m *message) {
		if n := len(m.fields); n > 0 {
			f, other := m.fields[random.IntN(n)], m.fields[random.IntN(n)].copyOf()
			f.inner, f.bytes = other.inner, other.bytes
		}
	},
	"bytes that are no text": func(random *rand.Rand, m *message) {
		if n := len(m.fields); n > 0 {
			f := m.fields[random.IntN(n)]
			f.inner, f.bytes = nil, []byte{0xff, 0, 0xc0, 0x80}
		}
	},
}

// A message of any valid or broken form is decoded as the reference decodes it.
func TestW01_ProtobufInOtherForms(t *testing.T) {
	t.Parallel()
	const seed = 20261120
	random := rand.New(rand.NewPCG(seed, 1))
	all := scheme.New()
	f := newFiller(all)
	pool := NewPool()
	values, errs := 0, 0
	objectKinds(all, func(i int, a apiType) {
		if !SupportsProtobuf(Options{Scheme: all, Kind: a.kind}) {
			return
		}
		c := newContest[object.Object](t, MediaProtobuf, Options{Scheme: all, Kind: a.kind}, pool)
		listKind := a.kind.GroupVersion().WithKind(a.kind.Kind + "List")
		table, err := protobuf.TableOf(a.typ, nil)
		require.NoError(t, err)
		raw, err := f.object(a.typ, half, int64(4000*i)).(interface{ Marshal() ([]byte, error) }).Marshal()
		require.NoError(t, err)
		require.Equal(t, raw, takeApart(t, table, raw).encode())
		for _, name := range slices.Sorted(maps.Keys(otherForms)) {
			whole := takeApart(t, table, raw)
			for range 1 + random.IntN(2) {
				messages := whole.all()
				otherForms[name](random, messages[random.IntN(len(messages))])
			}
			msg := whole.encode()
			body := protobufBody(t, a.kind, msg)
			c.objects(t, body, "%s of %s, seed %d, %x", name, a.kind, seed, msg)
			c.lists(t, messagesList(t, listKind, msg, msg, msg), "%s of a list of %s, seed %d, %x", name, a.kind, seed, msg)
			if _, err := c.reference.Object(body); err != nil {
				errs++
			} else {
				values++
			}
		}
	})
	t.Logf("%d values, %d errors", values, errs)
	require.Greater(t, values, portion(1000))
	require.Greater(t, errs, portion(100))
}

// A randomly damaged object gives the same result as with the reference.
func TestW01_DamagedProtobuf(t *testing.T) {
	t.Parallel()
	const seed = 20261120
	random := rand.New(rand.NewPCG(seed, 2))
	all := scheme.New()
	f := newFiller(all)
	pool := NewPool()
	objectKinds(all, func(i int, a apiType) {
		if !SupportsProtobuf(Options{Scheme: all, Kind: a.kind}) {
			return
		}
		c := newContest[object.Object](t, MediaProtobuf, Options{Scheme: all, Kind: a.kind}, pool)
		listKind := a.kind.GroupVersion().WithKind(a.kind.Kind + "List")
		raw, err := f.object(a.typ, half, int64(5000*i)).(interface{ Marshal() ([]byte, error) }).Marshal()
		require.NoError(t, err)
		for range 10 {
			msg := damage(random, raw)
			c.objects(t, protobufBody(t, a.kind, msg), "%s, seed %d, %x", a.kind, seed, msg)
			c.lists(t, messagesList(t, listKind, msg, msg, msg), "a list of %s, seed %d, %x", a.kind, seed, msg)
		}
	})
}

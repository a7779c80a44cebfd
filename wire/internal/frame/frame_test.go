package frame

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A long watch releases the buffer of one large object.
func TestBufferShrinksAgain(t *testing.T) {
	text := strings.Repeat("y", maxReusedBuffer+1)
	long := binary.BigEndian.AppendUint32(nil, uint32(len(text)))
	bodies := map[string][2][]byte{
		"JSON":     {[]byte(`{"x":"` + text + `"}` + "\n"), []byte("{}\n")},
		"protobuf": {append(long, text...), {0, 0, 0, 1, 'y'}},
		"CBOR":     {append(append([]byte{CBORText<<5 | 26}, long...), text...), {CBORText<<5 | 1, 'y'}},
	}
	const most = 2 * maxReusedBuffer
	for name, body := range bodies {
		// Two readers, so that the second frame is read only when needed.
		s := NewSource(io.MultiReader(bytes.NewReader(body[0]), bytes.NewReader(body[1])))
		next := map[string]func() (Item, error){
			"JSON":     (&JSON{Source: s, MaxBytes: most, MaxDepth: 10}).NextFrame,
			"protobuf": (&Protobuf{Source: s, MaxBytes: most}).NextFrame,
			"CBOR":     (&CBOR{Source: s, MaxBytes: most, MaxDepth: 10}).NextFrame,
		}[name]
		_, err := next()
		require.NoError(t, err, name)
		require.Greater(t, len(s.buf), maxReusedBuffer, name)
		_, err = next()
		require.NoError(t, err, name)
		require.LessOrEqual(t, len(s.buf), maxReusedBuffer, name)
		_, err = next()
		require.Equal(t, io.EOF, err, name)
	}
}

// The tape of a large value is released.
func TestTapeShrinksAgain(t *testing.T) {
	large := `[` + strings.Repeat("{},", 2*maxReusedTape) + `{}]`
	s := &JSON{Source: FromBytes([]byte(large + "[1]")), MaxBytes: 1 << 20, MaxDepth: 10}
	value, err := s.Value()
	require.NoError(t, err)
	require.Len(t, value.Tape, 2*maxReusedTape+2)
	_, err = s.Value()
	require.NoError(t, err)
	require.Less(t, cap(s.tape), maxReusedTape)
}

package recording

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// together is a recording of n watches that begin together, receive an event in turn,
// rounds times, and end together.
func together(t testing.TB, n, rounds int) []byte {
	t.Helper()
	var file bytes.Buffer
	w, at := blockWriter{to: &file}, time.Duration(0)
	require.NoError(t, errors.Join(w.begin(), w.add(&record{kind: kindHeader, payload: encode(header{})})))
	each := func(kind kind, payload func(of int) []byte) {
		for of := range n {
			at++
			require.NoError(t, w.add(&record{kind: kind, request: uint64(of + 1), at: at, payload: payload(of)}))
		}
	}
	each(kindRequest, func(of int) []byte {
		return encode(Request{Server: "http://h", Path: fmt.Sprintf("/api/v1/namespaces/n%d/pods", of), Query: "watch=true"})
	})
	each(kindAnswer, func(int) []byte { return encode(Answer{Status: 200, ContentType: "application/json"}) })
	for round := range rounds {
		each(kindChunk, func(of int) []byte {
			return fmt.Appendf(nil, `{"type":"ADDED","object":{"metadata":{"name":"%d of %d"},"spec":"%s"}}`, round, of, strings.Repeat("0123456789", 10))
		})
	}
	each(kindEnd, func(int) []byte { return encode(ending{}) })
	require.NoError(t, errors.Join(w.add(&record{kind: kindStop, at: at, payload: encode(stop{})}), w.flush()))
	return file.Bytes()
}

// The amount read for one request does not depend on the number of concurrent ones,
// whether they are played one after the other or in turn.
func TestManyRequestsAtATime(t *testing.T) {
	perRequest := func(n, ahead int) int64 {
		raw := together(t, n, 10)
		f, err := newFile("f", bytes.NewReader(raw), int64(len(raw)))
		require.NoError(t, err)
		c := &counting{ReaderAt: f.blocks.in}
		f.blocks.in = c
		playInTurn(t, f, ahead)
		return c.bytes / int64(n)
	}
	require.LessOrEqual(t, perRequest(2000, 1), perRequest(1000, 1)*5/4, "one by one")
	require.LessOrEqual(t, perRequest(2000, 2000), perRequest(1000, 1000)*5/4, "in turn")
}

// If an intact file is truncated later, a body does not simply end there.
func TestAFileThatBecomesShorter(t *testing.T) {
	raw := together(t, 1, 10_000)
	f, err := newFile("f", bytes.NewReader(raw), int64(len(raw)))
	require.NoError(t, err)
	f.blocks.in = bytes.NewReader(raw[:f.blocks.at[1].offset])
	_, err = io.ReadAll(f.Body(f.Requests[0]))
	require.ErrorIs(t, err, ErrCutOff)
	require.ErrorContains(t, err, "the file was truncated after it was opened")
}

// BenchmarkPlaying plays watches that last as long as the recording: one after the
// other, and all in turn.
func BenchmarkPlaying(b *testing.B) {
	for _, n := range []int{250, 1000, 4000} {
		raw := together(b, n, 10)
		for name, ahead := range map[string]int{"one by one": 1, "in turn": n} {
			b.Run(fmt.Sprint(name, "/", n), func(b *testing.B) {
				for b.Loop() {
					f, err := newFile("f", bytes.NewReader(raw), int64(len(raw)))
					require.NoError(b, err)
					playInTurn(b, f, ahead)
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(n), "µs/request")
			})
		}
	}
}

// playInTurn reads the bodies of a file, ahead of them at a time.
func playInTurn(t testing.TB, f *File, ahead int) {
	t.Helper()
	p := make([]byte, maxPayload)
	for some := range slices.Chunk(f.Requests, ahead) {
		var left []io.Reader
		for _, q := range some {
			left = append(left, f.Body(q))
		}
		for len(left) > 0 {
			left = slices.DeleteFunc(left, func(r io.Reader) bool {
				_, err := r.Read(p)
				if err != nil {
					require.Equal(t, io.EOF, err)
				}
				return err != nil
			})
		}
	}
}

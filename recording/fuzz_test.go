package recording

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/test/hostile"
)

// seed returns the records of a short recording.
func seed() (all []record) {
	request := encode(Request{Server: "http://h", Path: "/api/v1/pods", Query: "watch=true"})
	return []record{
		{kind: kindRequest, request: 1, payload: request},
		{kind: kindAnswer, request: 1, at: 1, payload: encode(Answer{Status: 200, ContentType: "application/json"})},
		{kind: kindChunk, request: 1, at: 2, payload: []byte("one")},
		{kind: kindRequest, request: 2, at: 2, payload: request},
		{kind: kindEnd, request: 2, at: time.Hour, payload: encode(endingOf(io.ErrUnexpectedEOF, stepSend))},
		{kind: kindEnd, request: 1, at: time.Hour, payload: encode(ending{})},
		{kind: kindStop, at: time.Hour, payload: encode(stop{})},
	}
}

// inBlocks returns a file with the given records.
func inBlocks(t testing.TB, records []byte) []byte {
	t.Helper()
	var file bytes.Buffer
	w := blockWriter{to: &file}
	err := errors.Join(w.begin(), w.add(&record{kind: kindHeader, payload: encode(header{})}), w.flush())
	for len(records) > 0 && err == nil {
		n := min(len(records), blockSize)
		w.block, records = append(w.block, records[:n]...), records[n:]
		err = w.flush()
	}
	require.NoError(t, err)
	return file.Bytes()
}

// FuzzRecording opens untrusted files: arbitrary bytes, and arbitrary records in blocks
// with correct checksums. Errors have an offset. Files that can be opened can be
// played.
func FuzzRecording(f *testing.F) {
	var records []byte
	for _, r := range seed() {
		records = r.append(records)
	}
	f.Add(records, true)
	f.Add(inBlocks(f, records), false)
	f.Add([]byte(magic), false)
	f.Add(bytes.Repeat(records[:len(records)/3], 500), true)
	budget := hostile.Budget{Memory: 2 << 20, MemoryPerByte: 1500}
	gone, leave := context.WithCancel(f.Context())
	leave()
	f.Fuzz(func(t *testing.T, raw []byte, blocks bool) {
		if blocks {
			raw = inBlocks(t, raw)
		}
		budget.Within(t, len(raw), func() {
			file, err := newFile("f", bytes.NewReader(raw), int64(len(raw)))
			if err == nil {
				err = file.Damage
			}
			if e, ok := errors.AsType[*Error](err); err != nil && (!ok || e.Offset < 0 || e.Offset > int64(len(raw))) {
				t.Fatalf("it does not say where: %v", err)
			}
			if file == nil {
				return
			}
			replay := file.Replay(ReplayOptions{})
			for _, q := range file.Requests[:min(3, len(file.Requests))] {
				_, _ = q.String(), q.Resource()
				req, err := http.NewRequestWithContext(gone, http.MethodGet, "http://h"+q.Path+"?"+q.Query, nil)
				if err != nil {
					continue
				}
				if resp, err := replay.RoundTrip(req); err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
				_, _ = io.Copy(io.Discard, file.Body(q))
			}
		})
	})
}

// The expansion of a block is limited.
func TestBlockThatExpandsTooFar(t *testing.T) {
	var file bytes.Buffer
	w := blockWriter{to: &file}
	require.NoError(t, w.begin())
	w.block = make([]byte, blockSize)
	require.NoError(t, w.flush())
	require.Greater(t, file.Len(), blockSize, "the writer leaves it as it is")

	file.Reset()
	w = blockWriter{to: &file}
	require.NoError(t, w.begin())
	w.room = make([]byte, blockHead+100)
	require.NoError(t, w.write(w.room[blockHead:], blockSize))
	_, err := newFile("f", bytes.NewReader(file.Bytes()), int64(file.Len()))
	require.EqualError(t, err, "recording f: at byte 21: the file is damaged: invalid block size: 100 bytes, 65536 uncompressed")
}

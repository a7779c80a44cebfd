package recording

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// rest reads the new bytes of a tail in parts of arbitrary length.
func rest(t *testing.T, tail *Tail) []byte {
	t.Helper()
	var all []byte
	for part := make([]byte, 7); ; {
		n, err := tail.Next(part)
		require.NoError(t, err)
		if n == 0 {
			return all
		}
		all = append(all, part[:n]...)
	}
}

// The output of a tail is a recording, while the recorder continues.
func TestATailIsARecording(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := Create(filepath.Join(t.TempDir(), "test.recording"), Options{})
		require.NoError(t, err)
		defer r.Close()
		tail := r.Tail()
		one(t, r)
		time.Sleep(2 * flushAfter)
		first := rest(t, tail)
		one(t, r)
		time.Sleep(2 * flushAfter)
		whole := append(first, rest(t, tail)...)

		for n, raw := range [][]byte{first, whole, whole[:len(whole)-5]} {
			path := filepath.Join(t.TempDir(), "saved.recording")
			status, err := Save(path, bytes.NewReader(raw), Options{})
			require.NoError(t, err)
			f := opened(t, path)
			require.NoError(t, f.Damage)
			require.Len(t, f.Requests, []int{1, 2, 2}[n])
			require.Equal(t, Status{Path: path, Requests: len(f.Requests), Bytes: status.Bytes, Size: f.Size}, status)
			body, err := io.ReadAll(f.Body(f.Requests[0]))
			require.NoError(t, err)
			require.Len(t, body, int(f.Requests[0].Bytes))
		}
		require.NoError(t, r.Close())
		_, err = tail.Next(make([]byte, 1))
		require.Equal(t, io.EOF, err)
		_, err = new(Recorder).Tail().Next(nil)
		require.ErrorContains(t, err, "create it with Create")
	})
}

// A slow reader blocks nothing, and learns that the file was shrunk.
func TestATailThatIsNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := Create(filepath.Join(t.TempDir(), "test.recording"), Options{MaxSize: leastMaxSize})
		require.NoError(t, err)
		one(t, r)
		time.Sleep(2 * flushAfter)
		slow, some := r.Tail(), make([]byte, 10)
		_, err = slow.Next(some)
		require.NoError(t, err)
		source := rand.NewChaCha8([32]byte{})
		for noise := make([]byte, 100_000); r.Status().LeftOut.Requests == 0; synctest.Wait() {
			_, _ = source.Read(noise)
			told(t, r.RoundTripper(serve(200, part{0, string(noise), nil}), nil), get(t, pods))
		}
		_, err = slow.Next(some)
		require.ErrorIs(t, err, ErrShortened)
		path := filepath.Join(t.TempDir(), "saved.recording")
		_, err = Save(path, bytes.NewReader(rest(t, r.Tail())), Options{})
		require.NoError(t, err)
		require.Positive(t, opened(t, path).LeftOut.Requests)
		require.NoError(t, r.Close())
	})
}

// Save does not trust its input, and does not harm an existing file.
func TestSaveChecksEverything(t *testing.T) {
	var records []byte
	for _, r := range seed() {
		records = r.append(records)
	}
	good := inBlocks(t, records)
	path := filepath.Join(t.TempDir(), "saved.recording")
	_, err := Save(path, bytes.NewReader(good), Options{})
	require.NoError(t, err)
	for _, bad := range []string{"", "<html>", string(good[:30]), "millrace recording 9\n12345"} {
		_, err := Save(path, bytes.NewReader([]byte(bad)), Options{})
		require.ErrorContains(t, err, "the input is not a recording", bad)
	}
	require.Len(t, opened(t, path).Requests, 2)

	damaged := bytes.Clone(good)
	damaged[len(damaged)-1] ^= 1
	_, err = Save(path, bytes.NewReader(damaged), Options{})
	require.ErrorIs(t, err, ErrDamaged)
	require.NoError(t, opened(t, path).Damage)
	require.Len(t, opened(t, path+".previous").Requests, 2)

	_, err = Save(filepath.Join(t.TempDir(), "x"), &endless{}, Options{MaxSize: leastMaxSize})
	require.ErrorIs(t, err, ErrTooLarge)
	require.NoError(t, os.WriteFile(path, []byte("mine"), 0o600))
	_, err = Save(path, bytes.NewReader(good), Options{})
	require.ErrorContains(t, err, "the file exists and is not a recording")
	_, err = Save(path, bytes.NewReader(good), Options{MaxSize: 1})
	require.ErrorContains(t, err, "MaxSize is 1")
}

// endless is a recording that never ends.
type endless struct {
	bytes.Buffer
	blocks blockWriter
	noise  *rand.ChaCha8
}

func (e *endless) Read(p []byte) (int, error) {
	if e.blocks.to == nil {
		e.blocks.to, e.noise = &e.Buffer, rand.NewChaCha8([32]byte{})
		all := seed()
		if err := e.blocks.begin(); err != nil {
			return 0, err
		}
		for _, r := range append([]record{{kind: kindHeader, payload: encode(header{})}}, all[:2]...) {
			if err := e.blocks.add(&r); err != nil {
				return 0, err
			}
		}
	}
	for e.Len() == 0 {
		noise := make([]byte, maxPayload)
		_, _ = e.noise.Read(noise)
		if err := e.blocks.add(&record{kind: kindChunk, request: 1, at: 2, payload: noise}); err != nil {
			return 0, err
		}
	}
	return e.Buffer.Read(p)
}

// FuzzSave saves untrusted input. A saved file can be read to its end.
func FuzzSave(f *testing.F) {
	var records []byte
	for _, r := range seed() {
		records = r.append(records)
	}
	f.Add(records, true)
	f.Add(records[:len(records)/2], true)
	f.Add(inBlocks(f, records), false)
	f.Add(inBlocks(f, records)[:40], false)
	f.Fuzz(func(t *testing.T, raw []byte, blocks bool) {
		if blocks {
			raw = inBlocks(t, raw)
		}
		path := filepath.Join(t.TempDir(), "saved")
		status, err := Save(path, bytes.NewReader(raw), Options{})
		file, failed := Open(path)
		if failed != nil {
			require.Error(t, err, failed)
			return
		}
		defer file.Close()
		require.NoError(t, file.Damage)
		if err == nil {
			require.Len(t, file.Requests, status.Requests)
		}
	})
}

// megabyte makes a recording of that size.
func megabyte(t *testing.T, path string) []byte {
	t.Helper()
	r, err := Create(path, Options{})
	require.NoError(t, err)
	noise := make([]byte, 100_000)
	source := rand.NewChaCha8([32]byte{})
	for range 10 {
		_, _ = source.Read(noise)
		told(t, r.RoundTripper(serve(200, part{0, string(noise), nil}), nil), get(t, pods))
	}
	require.NoError(t, r.Close())
	all, err := os.ReadFile(path)
	require.NoError(t, err)
	return all
}

// A broken connection is neither the end of a recording nor a damaged file.
func TestSaveReportsABrokenConnection(t *testing.T) {
	path := filepath.Join(t.TempDir(), "there")
	all := megabyte(t, path)
	for _, broken := range []error{io.ErrUnexpectedEOF, errors.New("reset")} {
		breaks := readerFunc(func([]byte) (int, error) { return 0, broken })
		here := filepath.Join(t.TempDir(), "here")
		status, err := Save(here, io.MultiReader(bytes.NewReader(all[:len(all)/2]), breaks), Options{})
		require.ErrorIs(t, err, broken)
		require.Positive(t, status.Size)
		require.Len(t, opened(t, here).Requests, status.Requests)
		_, err = Save(here+"2", breaks, Options{})
		require.ErrorIs(t, err, broken)
		require.NotContains(t, err.Error(), "not a recording")
	}
}

// If two calls save to one path, one of them gets an error.
func TestSaveReportsThatTheFileExists(t *testing.T) {
	dir := t.TempDir()
	all := megabyte(t, filepath.Join(dir, "there"))
	here := filepath.Join(dir, "here")
	meanwhile := readerFunc(func([]byte) (int, error) {
		_, err := Save(here, bytes.NewReader(all), Options{})
		require.NoError(t, err)
		return 0, io.EOF
	})
	_, err := Save(here, io.MultiReader(bytes.NewReader(all[:len(all)/2]), meanwhile, bytes.NewReader(all[len(all)/2:])), Options{})
	require.ErrorIs(t, err, ErrTaken)
	require.Len(t, opened(t, here).Requests, 10)
}

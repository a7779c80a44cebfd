package recording

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func one(t *testing.T, r *Recorder) {
	t.Helper()
	told(t, r.RoundTripper(serve(200, part{time.Second, "one", nil}), nil), get(t, pods))
}

// Two starts that receive nothing, for example with a mistyped name, do not displace a
// recording.
func TestEmptyRecordingDisplacesNoRecording(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := recorded(t, Options{}, func(r *Recorder) { one(t, r) }).Path
		for range 3 {
			r, err := Create(path, Options{})
			require.NoError(t, err)
			require.NoError(t, r.Close())
		}
		require.Empty(t, opened(t, path).Requests)
		require.Len(t, opened(t, path+".previous").Requests, 1)
	})
}

// An empty file left by a crash does not prevent later recordings.
func TestAnEmptyFileIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.recording")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	r, err := Create(path, Options{})
	require.NoError(t, err)
	require.NoError(t, r.Close())
	require.NoFileExists(t, path+".previous")
}

// A file that is not a recording is not replaced under the other name either.
func TestForeignFileUnderThePreviousNameIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := recorded(t, Options{}, func(r *Recorder) { one(t, r) }).Path
		require.NoError(t, os.WriteFile(path+".previous", []byte("mine"), 0o600))
		_, err := Create(path, Options{})
		require.ErrorContains(t, err, path+".previous: the file exists and is not a recording")
		text, err := os.ReadFile(path + ".previous")
		require.NoError(t, err)
		require.Equal(t, "mine", string(text))
		require.Len(t, opened(t, path).Requests, 1)
	})
}

// Close reports that the file was moved.
func TestAFileThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "test.recording")
		var both [2]*Recorder
		for n := range both {
			r, err := Create(path, Options{})
			require.NoError(t, err)
			one(t, r)
			both[n] = r
		}
		require.ErrorIs(t, both[0].Close(), ErrTaken)
		require.Len(t, opened(t, path+".previous").Requests, 1, "and all of it is there")
		require.NoError(t, os.Remove(path))
		require.ErrorContains(t, both[1].Close(), "moved or removed")
	})
}

// A partial file left by a crash is removed, unless it is something else.
func TestPartialFileLeftByACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := recorded(t, Options{}, func(r *Recorder) { one(t, r) }).Path
		whole, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, left := range []string{"", magic[:5], string(whole[:len(whole)/2]), string(whole)} {
			require.NoError(t, os.WriteFile(path+".part", []byte(left), 0o600))
			r, err := Create(path, Options{})
			require.NoError(t, err, left)
			require.NoError(t, r.Close())
			require.NoFileExists(t, path+".part")
		}
		require.NoError(t, os.WriteFile(path+".part", []byte("mine"), 0o600))
		_, err = Create(path, Options{})
		require.ErrorContains(t, err, path+".part: the file exists and is not a recording")
		require.FileExists(t, path+".part")
	})
}

// The recorder would replace the link by a file, perhaps on another disk.
func TestRecordingToASymbolicLinkIsRefused(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(target, link))
	for range 2 { // a dangling link and one to a file
		_, err := Create(link, Options{})
		require.ErrorContains(t, err, "the path is a symbolic link, which would be replaced: use the path it points to")
		require.NoError(t, os.WriteFile(target, nil, 0o600))
	}
}

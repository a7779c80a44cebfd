package snapshot

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// written writes a snapshot and returns its label and path.
func written(t *testing.T, d *Directory, at time.Time) (Label, string) {
	t.Helper()
	l := Label{Server: "s", RV: "1", Written: at}
	_, err := d.Write(t.Context(), l, func(w *Writer) error {
		_, err := w.Write([]byte("x"))
		return err
	})
	require.NoError(t, err)
	return l, filepath.Join(d.Path(), l.name())
}

// A directory that other users may write, such as an emptyDir, is used, but the files of other
// users are not.
func TestFilesOfOthersAreRefused(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no such modes")
	}
	dir := filepath.Join(t.TempDir(), "d")
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, os.Chmod(dir, 0o777)) // whatever the umask
	d := In(dir, Options{})
	defer d.Use()()
	l, name := written(t, d, time.Now())
	for mode, want := range map[os.FileMode]error{0o600: nil, 0o660: nil, 0o664: nil, 0o666: ErrNotOwn, 0o602: ErrNotOwn} {
		require.NoError(t, os.Chmod(name, mode))
		_, err := d.Read(l)
		require.ErrorIs(t, err, want, mode)
		_, err = Open(name)
		require.NoError(t, err, "a file that somebody names is read")
	}
	if os.Geteuid() != 0 {
		return // only root can give files away
	}
	require.NoError(t, os.Chmod(name, 0o600))
	require.NoError(t, os.Chown(name, 12345, 12345))
	_, err := d.Read(l)
	require.ErrorIs(t, err, ErrNotOwn)
}

func TestC02_AFileOfTheFutureIsOld(t *testing.T) {
	d := In(t.TempDir(), Options{MaxAge: time.Hour})
	defer d.Use()()
	for ahead, want := range map[time.Duration]error{time.Minute: nil, 2 * time.Hour: ErrOld, -2 * time.Hour: ErrOld} {
		l, _ := written(t, d, time.Now().Add(ahead))
		_, err := d.Read(l)
		require.ErrorIs(t, err, want, ahead)
	}
}

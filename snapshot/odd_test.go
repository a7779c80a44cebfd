//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package snapshot

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// odd puts something other than a regular file at a path.
var odd = map[string]struct {
	put  func(t *testing.T, path string)
	says string
}{
	"a named pipe": {func(t *testing.T, path string) { require.NoError(t, syscall.Mkfifo(path, 0o600)) }, "a named pipe"},
	"a directory":  {func(t *testing.T, path string) { require.NoError(t, os.Mkdir(path, 0o700)) }, "a directory"},
	"a full directory": {func(t *testing.T, path string) {
		require.NoError(t, os.MkdirAll(filepath.Join(path, "x"), 0o700))
	}, "a directory"},
	"a device": {func(t *testing.T, path string) { require.NoError(t, os.Symlink("/dev/zero", path)) }, "a symbolic link"},
	"a link": {func(t *testing.T, path string) {
		to := filepath.Join(t.TempDir(), "elsewhere")
		require.NoError(t, os.WriteFile(to, nil, 0o600))
		require.NoError(t, os.Symlink(to, path))
	}, "a symbolic link"},
	"a dangling link": {func(t *testing.T, path string) {
		require.NoError(t, os.Symlink(filepath.Join(t.TempDir(), "none"), path))
	}, "a symbolic link"},
}

// Anything but a regular file is rejected immediately, with a one-line error, and is not read
// (C02).
func TestC02_OnlyRegularFilesAreRead(t *testing.T) {
	l := pods("")
	for name, c := range odd {
		t.Run(name, func(t *testing.T) {
			d := In(t.TempDir(), Options{})
			path := filepath.Join(d.path, l.name())
			c.put(t, path)
			budget.Within(t, 0, func() {
				_, err := d.Read(l)
				require.ErrorIs(t, err, ErrNotFile)
				require.EqualError(t, err, "snapshot "+path+": not a regular file but "+c.says+": remove it")
			})
			_, err := write(d, l, []byte("whole"))
			if info, _ := os.Lstat(path); info.IsDir() {
				require.ErrorIs(t, err, syscall.EEXIST)
				require.DirExists(t, path)
				return
			}
			require.NoError(t, err)
			f, err := d.Read(l)
			require.NoError(t, err)
			require.Equal(t, "whole", string(f.Content), "it has been replaced")
		})
		t.Run(name+" for a lock", func(t *testing.T) {
			d := In(t.TempDir(), Options{})
			path := filepath.Join(d.path, "lock")
			c.put(t, path)
			_, err := write(d, l, nil)
			require.ErrorIs(t, err, ErrNotFile)
			require.EqualError(t, err, "snapshot "+d.path+": lock: not a regular file but "+c.says+": remove it")
			require.NoError(t, os.RemoveAll(path))
			_, err = write(d, l, nil)
			require.NoError(t, err)
		})
		t.Run(name+" for one that was not finished", func(t *testing.T) {
			d := In(t.TempDir(), Options{})
			c.put(t, filepath.Join(d.path, l.name()+temporary+"1"))
			_, err := write(d, l, nil)
			require.NoError(t, err, "what is not ours is in nobody's way")
		})
	}
	if _, err := os.Stat("/dev/zero"); err == nil {
		_, err := Open("/dev/zero")
		require.ErrorIs(t, err, ErrNotFile)
		require.ErrorContains(t, err, "a device")
	}
}

// A file with a wrong length costs no memory, wherever its hole is (C02).
func TestC02_AHoleCostsNothing(t *testing.T) {
	l := pods("")
	d := In(t.TempDir(), Options{})
	path := filepath.Join(d.path, l.name())
	_, err := write(d, l, noise(blockSize+1))
	require.NoError(t, err)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, kept := range []int{0, 1, len(magic), len(magic) + 4, len(magic) + headSize, len(magic) + headSize + 9, len(whole) / 2, len(whole) - headSize, len(whole)} {
		require.NoError(t, os.WriteFile(path, whole[:kept], 0o600))
		require.NoError(t, os.Truncate(path, 1<<42))
		budget.Within(t, 0, func() {
			_, err := d.Read(l)
			require.ErrorIs(t, err, ErrDamaged, kept)
		})
	}
}

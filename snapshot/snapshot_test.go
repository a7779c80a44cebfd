package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/test/hostile"
)

func pods(namespace string) Label {
	return Label{
		Server: "https://shop.example", Cluster: "1", Kind: object.GVK{Version: "v1", Kind: "Pod"}, Type: "*v1.Pod", Shape: "s",
		Namespace: namespace, RV: "100", Objects: 3, Written: time.Now(),
	}
}

func write(d *Directory, l Label, content []byte) (int64, error) {
	return d.Write(context.Background(), l, func(w *Writer) error {
		_, err := w.Write(content)
		return err
	})
}

func noise(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

func TestSnapshotRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b")
	d := In(path, Options{})
	_, err := d.Read(pods(""))
	require.ErrorIs(t, err, fs.ErrNotExist)
	for _, n := range []int{0, 1, blockSize - 1, blockSize, blockSize + 1, 3*blockSize + 7} {
		want := pods("")
		size, err := write(d, want, noise(n))
		require.NoError(t, err)
		f, err := d.Read(Label{Server: want.Server, Kind: want.Kind, Type: want.Type, Shape: want.Shape})
		require.NoError(t, err)
		require.True(t, bytes.Equal(noise(n), f.Content), n)
		require.Equal(t, size, f.Size)
		require.True(t, want.Written.Equal(f.Written))
		f.Written, want.Written = time.Time{}, time.Time{}
		require.Equal(t, want, f.Label)
		info, err := os.Stat(f.Path)
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o600), info.Mode())
		require.Equal(t, size, info.Size())
	}
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.ModeDir|0o700, info.Mode())
}

func TestAnotherLabelIsRefused(t *testing.T) {
	d := In(t.TempDir(), Options{})
	_, err := write(d, pods(""), nil)
	require.NoError(t, err)
	want := pods("")
	want.Shape = "t"
	_, err = d.Read(want)
	require.ErrorIs(t, err, ErrForeign)
	require.ErrorContains(t, err, "version of the Go type")
	for what, change := range map[string]func(*Label){
		"server":         func(l *Label) { l.Server = "x" },
		"kind":           func(l *Label) { l.Kind.Kind = "../X" },
		"Go type":        func(l *Label) { l.Type = "x" },
		"namespace":      func(l *Label) { l.Namespace = "x" },
		"scope":          func(l *Label) { l.Scope = "x" },
		"label selector": func(l *Label) { l.Labels = "x" },
		"field selector": func(l *Label) { l.Fields = "x" },
		"fields":         func(l *Label) { l.Keep = "only spec" },
		"transform":      func(l *Label) { l.Transform = "slim 2" },
	} {
		want, have := pods(""), pods("")
		change(&want)
		_, err := d.Read(want)
		require.ErrorIs(t, err, fs.ErrNotExist, "each has a file of its own")
		require.Equal(t, want.name(), filepath.Base(want.name()))
		require.NoError(t, os.Rename(filepath.Join(d.path, have.name()), filepath.Join(d.path, want.name())))
		_, err = d.Read(want)
		require.ErrorIs(t, err, ErrForeign)
		require.ErrorContains(t, err, what)
		require.NoError(t, os.Rename(filepath.Join(d.path, want.name()), filepath.Join(d.path, have.name())))
	}
}

func TestOldSnapshotIsRefusedAndRemoved(t *testing.T) {
	dir := t.TempDir()
	old := pods("")
	old.Written = time.Now().Add(-2 * time.Hour)
	_, err := write(In(dir, Options{}), old, nil)
	require.NoError(t, err)
	path := filepath.Join(dir, old.name())
	require.NoError(t, os.Chtimes(path, old.Written, old.Written))
	d := In(dir, Options{MaxAge: time.Hour})
	_, err = d.Read(pods(""))
	require.ErrorIs(t, err, ErrOld)
	require.NoError(t, os.WriteFile(path+temporary+"1", nil, 0o600))
	_, err = write(d, pods("shop"), nil)
	require.NoError(t, err)
	left, err := filepath.Glob(filepath.Join(dir, "*.snapshot*"))
	require.NoError(t, err)
	other := pods("shop")
	require.Equal(t, []string{filepath.Join(dir, other.name())}, left)
}

// Files not written by this package are never removed, however old they are.
func TestFilesOfOthersStay(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-48 * time.Hour)
	for _, name := range []string{"db.snapshot", "db.snapshot.new-1", "vm-0123456789abcdef.snapshot.gz"} {
		theirs := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(theirs, nil, 0o600))
		require.NoError(t, os.Chtimes(theirs, old, old))
		_, err := write(In(dir, Options{}), pods(""), nil)
		require.NoError(t, err)
		require.FileExists(t, theirs)
	}
}

// A file that was truncated or changed anywhere is rejected (C02).
func TestC02_ADamagedFileIsRefused(t *testing.T) {
	d := In(t.TempDir(), Options{})
	l := pods("")
	_, err := write(d, l, noise(2*blockSize+5000))
	require.NoError(t, err)
	path := filepath.Join(d.path, l.name())
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	refused := func(what string, raw []byte) {
		t.Helper()
		f := new(File)
		require.ErrorIs(t, f.parse(bytes.NewReader(raw), int64(len(raw))), ErrDamaged, what)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		cut := random.IntN(len(whole))
		refused(fmt.Sprintf("cut at %d", cut), bytes.Clone(whole[:cut]))
	}
	for range 300 {
		raw := bytes.Clone(whole)
		bit := random.IntN(8 * len(raw))
		raw[bit/8] ^= 1 << (bit % 8)
		refused(fmt.Sprintf("bit %d", bit), raw)
	}
	for range 100 { // like a disk on which some sectors are outdated
		raw := bytes.Clone(whole)
		at := random.IntN(len(raw)-4096) / 512 * 512
		clear(raw[at : at+4096])
		refused(fmt.Sprintf("zeros at %d", at), raw)
	}
	for cut := range 600 {
		refused("head", bytes.Clone(whole[:cut]))
	}
	for cut := range 200 { // far into the last block
		refused("tail", bytes.Clone(whole[:len(whole)-1-cut]))
	}
	refused("goes on", append(bytes.Clone(whole), 0))
	refused("another version", bytes.Replace(bytes.Clone(whole), []byte("snapshot 2"), []byte("snapshot 3"), 1))
	refused("empty", nil)
	require.NoError(t, os.Truncate(path, int64(len(whole)/2)))
	_, err = d.Read(pods(""))
	require.ErrorIs(t, err, ErrDamaged)
	require.ErrorContains(t, err, path)
}

// fullDisk accepts a limited number of bytes.
type fullDisk struct {
	*os.File
	left *int
}

func (f fullDisk) Write(b []byte) (int, error) {
	if *f.left -= len(b); *f.left < 0 {
		n, _ := f.File.Write(b[:len(b)/2])
		return n, &os.PathError{Op: "write", Path: f.Name(), Err: syscall.ENOSPC}
	}
	return f.File.Write(b)
}

func TestAFullDiskLeavesTheOneBefore(t *testing.T) {
	d := In(t.TempDir(), Options{})
	_, err := write(d, pods(""), []byte("before"))
	require.NoError(t, err)
	create := d.create
	for left := 0; left < 3*blockSize; left += blockSize / 3 {
		room := left
		d.create = func(dir, pattern string) (file, error) {
			f, err := create(dir, pattern)
			return fullDisk{f.(*os.File), &room}, err
		}
		_, err = write(d, pods(""), noise(3*blockSize))
		require.ErrorIs(t, err, syscall.ENOSPC)
		f, err := d.Read(pods(""))
		require.NoError(t, err)
		require.Equal(t, "before", string(f.Content))
		left, err := filepath.Glob(filepath.Join(d.path, "*"+temporary+"*"))
		require.NoError(t, err)
		require.Empty(t, left)
	}
}

// If fill panics or exits, no file and no descriptor is left behind.
func TestAFillThatDoesNotReturnLeavesNothing(t *testing.T) {
	for name, fill := range map[string]func(){"panics": func() { panic("oh") }, "exits": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			d := In(t.TempDir(), Options{})
			defer d.Use()() // as a running informer does
			create := d.create
			var made file
			d.create = func(dir, pattern string) (f file, err error) {
				made, err = create(dir, pattern)
				return made, err
			}
			require.Error(t, failure.Apart("fill", func() error {
				_, err := d.Write(t.Context(), pods(""), func(*Writer) error { fill(); return nil })
				return err
			}))
			left, err := filepath.Glob(filepath.Join(d.path, "*"+temporary+"*"))
			require.NoError(t, err)
			require.Empty(t, left)
			require.ErrorIs(t, made.Close(), fs.ErrClosed)
		})
	}
}

func TestInvalidDirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	_, err := write(In(filepath.Join(path, "d"), Options{}), pods(""), nil)
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Contains(t, err.Error(), "not a directory")
}

func TestADirectoryThatIsReadOnly(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write everywhere")
	}
	path := t.TempDir()
	require.NoError(t, os.Chmod(path, 0o500))
	_, err := write(In(path, Options{}), pods(""), nil)
	require.ErrorIs(t, err, fs.ErrPermission)
}

func TestOnlyOneProcessWritesAtATime(t *testing.T) {
	d := In(t.TempDir(), Options{})
	_, err := d.Write(t.Context(), pods(""), func(*Writer) error {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := d.Write(ctx, pods("shop"), func(*Writer) error { return nil })
		require.ErrorIs(t, err, context.Canceled)
		return nil
	})
	require.NoError(t, err)
}

const asked = "MILLRACE_TEST_SNAPSHOT_DIR"

// TestWriterForever is the other process of the tests below.
func TestWriterForever(t *testing.T) {
	dir := os.Getenv(asked)
	if dir == "" {
		t.Skip("for other tests")
	}
	d := In(dir, Options{})
	defer d.Use()()
	for n := 0; ; n++ {
		content := bytes.Repeat([]byte{byte(n)}, 1+n%7*blockSize/2)
		if _, err := write(d, pods(""), content); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("written")
	}
}

// another starts a process that keeps writing, and waits until it has written.
func another(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	other := exec.Command(os.Args[0], "-test.run=^TestWriterForever$")
	other.Env = append(os.Environ(), asked+"="+dir)
	out, err := other.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, other.Start())
	t.Cleanup(func() { other.Process.Kill(); other.Wait() })
	buffer := make([]byte, 1000)
	n, err := out.Read(buffer)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(buffer[:n]), "written"), "%s", buffer[:n])
	go func() {
		for err == nil {
			_, err = out.Read(buffer)
		}
	}()
	return other
}

// Whenever the writer is killed, a complete file is left, and the next writer continues (C02).
func TestC02_TheWriterIsKilled(t *testing.T) {
	dir := t.TempDir()
	for range 12 {
		other := another(t, dir)
		time.Sleep(time.Duration(rand.Int64N(int64(30 * time.Millisecond))))
		d := In(dir, Options{})
		_, err := write(d, pods(""), nil)
		require.ErrorIs(t, err, ErrLocked)
		require.NoError(t, other.Process.Kill())
		_ = other.Wait()
		f, err := d.Read(pods(""))
		require.NoError(t, err)
		require.Equal(t, len(f.Content), bytes.Count(f.Content, f.Content[:1]))
	}
	_, err := write(In(dir, Options{}), pods(""), nil)
	require.NoError(t, err)
	left, err := filepath.Glob(filepath.Join(dir, "*"+temporary+"*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// The lock is released by the last user of the directory.
func TestLockIsReleased(t *testing.T) {
	dir := t.TempDir()
	d, other := In(dir, Options{}), In(dir, Options{})
	one, two := d.Use(), d.Use()
	_, err := write(d, pods(""), nil)
	require.NoError(t, err)
	one()
	one()
	_, err = write(other, pods(""), nil)
	require.ErrorIs(t, err, ErrLocked)
	require.ErrorContains(t, err, "another Directory in this one")
	two()
	_, err = write(other, pods(""), nil)
	require.NoError(t, err)
}

// Informers start and stop while another one waits for the file system, which may hang. So claiming the directory
// must not need the mutex of Use.
func TestUseDoesNotWaitForTheFileSystem(t *testing.T) {
	d := In(t.TempDir(), Options{})
	defer d.Use()()
	d.mu.Lock()
	defer d.mu.Unlock()
	require.NoError(t, d.claim())
}

// A directory that was removed is created again. If another process has claimed it since, it is not
// ours any more.
func TestRemovedDirectoryIsCreatedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d")
	d, other := In(path, Options{}), In(path, Options{})
	done := d.Use()
	for range 3 {
		_, err := write(d, pods(""), nil)
		require.NoError(t, err)
		require.NoError(t, os.RemoveAll(path))
	}
	defer other.Use()()
	_, err := write(other, pods(""), nil)
	require.NoError(t, err)
	_, err = write(d, pods(""), nil)
	require.ErrorIs(t, err, ErrLocked)
	done()
}

var budget = hostile.Budget{Memory: 1 << 16, MemoryPerByte: 20}

// Whatever a file contains, reading it returns an error or exactly what was written.
func FuzzFile(f *testing.F) {
	var b bytes.Buffer
	w := newWriter(&b)
	l := Label{Kind: object.GVK{Kind: "Pod"}, RV: "1", Objects: 1}
	if err := errors.Join(w.begin(&l), w.end()); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, raw []byte) {
		budget.Within(t, len(raw), func() {
			file := new(File)
			if err := file.parse(bytes.NewReader(raw), int64(len(raw))); err != nil && !errors.Is(err, ErrDamaged) {
				t.Fatal(err)
			}
		})
	})
}

// A file that is no longer written, such as that of an old version of a transform, is removed even
// while the process that found it keeps running.
func TestOldFilesAreRemovedWhileADirectoryIsInUse(t *testing.T) {
	dir := t.TempDir()
	former := pods("")
	former.Transform = "1"
	d := In(dir, Options{})
	defer d.Use()()
	_, err := write(d, former, nil)
	require.NoError(t, err)
	path := filepath.Join(dir, former.name())
	old := time.Now().Add(-25 * time.Hour)
	require.NoError(t, os.Chtimes(path, old, old))
	again := func() {
		_, err := write(d, pods(""), nil)
		require.NoError(t, err)
	}
	again()
	require.FileExists(t, path, "it was looked for just now")
	d.cleaned = time.Now().Add(-cleanEvery)
	again()
	require.NoFileExists(t, path)
}

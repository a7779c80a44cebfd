package reading

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/source"
)

// disk is a file system whose reads block until they are released.
type disk struct {
	log    bytes.Buffer
	answer chan struct{} // one for each read
	reads  []string
	taken  string
}

func (d *disk) read(path string) ([]byte, error) {
	d.reads = append(d.reads, path)
	<-d.answer
	return []byte(path), nil
}

func (d *disk) files() *Files {
	d.answer = make(chan struct{})
	return New(slog.New(slog.NewTextHandler(&d.log, nil)), []File{{"key", "/a"}, {"certificate", "/b"}}, d.read, func(contents [][]byte, err error) error {
		d.taken += string(bytes.Join(contents, nil))
		return err
	})
}

// Callers in a hurry, one after another, get what a file brings that is slower than each of
// them.
func TestReadContinuesAfterTheCallerGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := new(disk)
		f := d.files()
		for try := range 3 {
			progress := new(source.Progress)
			ctx, cancel := context.WithTimeout(source.WithProgress(t.Context(), progress), 3*time.Second)
			err := f.Wait(ctx)
			cancel()
			stuck, ok := errors.AsType[*source.StuckError](err)
			require.True(t, ok, "%v", err)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, "key in /a", stuck.What)
			require.Equal(t, time.Duration(try+1)*3*time.Second, stuck.For)
			require.Equal(t, "key in /a", progress.Waiting(nil).What)
		}
		d.answer <- struct{}{}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorContains(t, f.Wait(ctx), "waiting for certificate in /b for 10s: context deadline exceeded")
		require.Equal(t, []string{"/a", "/b"}, d.reads, "one reading for all")
		close(d.answer)
		synctest.Wait()
		require.Equal(t, "/a/b", d.taken, "a late answer is used")
		require.NoError(t, f.Wait(t.Context()))
		require.Equal(t, "/a/b/a/b", d.taken)
	})
}

func TestOnlyTheFirstReadWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := new(disk)
		f := d.files()
		start := time.Now()
		for range 3 {
			require.ErrorIs(t, f.Try(t.Context()), ErrSlow)
		}
		require.Equal(t, Patience, time.Since(start))
		require.Equal(t, 1, bytes.Count(d.log.Bytes(), []byte("key in /a")), d.log.String())
		close(d.answer)
		synctest.Wait()
		require.NoError(t, f.Try(t.Context()))
	})
}

func TestAFileThatCannotBeReadIsNamed(t *testing.T) {
	broken := errors.New("open /a: broken")
	f := New(slog.New(slog.DiscardHandler), []File{{"key", "/a"}, {"certificate", "/b"}},
		func(string) ([]byte, error) { return nil, broken },
		func(contents [][]byte, err error) error {
			require.Nil(t, contents)
			return err
		})
	require.EqualError(t, f.Try(t.Context()), "key: open /a: broken")
}

// Neither ends the process, nor has all wait for ever.
func TestReadThatPanicsOrExits(t *testing.T) {
	for what, breaks := range map[string]func(){"panicked: sad": func() { panic("sad") }, "called runtime.Goexit": runtime.Goexit} {
		synctest.Test(t, func(t *testing.T) {
			reads, takes := true, true
			f := New(slog.New(slog.DiscardHandler), []File{{"key", "/a"}},
				func(string) ([]byte, error) {
					if reads {
						breaks()
					}
					return nil, nil
				},
				func(_ [][]byte, err error) error {
					if takes {
						breaks()
					}
					return err
				})
			require.ErrorContains(t, f.Wait(t.Context()), "the use of the contents "+what)
			takes = false
			require.ErrorContains(t, f.Wait(t.Context()), "key: the reading of /a "+what)
			reads = false
			require.NoError(t, f.Wait(t.Context()))
		})
	}
}

//go:build unix

package flight

import (
	"io"
	"os"
	"syscall"
	"testing"
	"time"
)

// quit lets the process end by a signal after two recorders have written, one of them slowly.
func quit(w io.Writer) {
	other := New(DefaultSize)
	other.Track(Label{Role: Queue, Name: "slow"}).Record(&Event{Kind: Marked})
	other.DumpOnQuit(writerFunc(func(b []byte) (int, error) {
		time.Sleep(100 * time.Millisecond)
		return os.Stderr.Write(b)
	}))
	Process().DumpOnQuit(w)
	_ = syscall.Kill(os.Getpid(), syscall.SIGQUIT)
}

func TestDumpOnQuitCanBeStopped(t *testing.T) {
	stop := New(DefaultSize).DumpOnQuit(io.Discard)
	stop()
	stop()
}

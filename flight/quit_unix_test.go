//go:build unix

package flight

import (
	"io"
	"os"
	"syscall"
	"testing"
)

// quit lets the process end by a signal.
func quit(w io.Writer) {
	Process().DumpOnQuit(w)
	_ = syscall.Kill(os.Getpid(), syscall.SIGQUIT)
}

func TestDumpOnQuitCanBeStopped(t *testing.T) {
	stop := New(DefaultSize).DumpOnQuit(io.Discard)
	stop()
	stop()
}

//go:build unix

package flight

import (
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// DumpOnQuit writes all events to w when the process gets SIGQUIT, as from Ctrl-\ or
// kill -QUIT, and then lets the signal do what it does otherwise: the Go runtime writes
// the stacks of all goroutines and ends the process. Stop ends that.
func (r *Recorder) DumpOnQuit(w io.Writer) (stop func()) {
	quit, stopped := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(quit, syscall.SIGQUIT)
	var waiting sync.WaitGroup
	waiting.Go(func() {
		defer signal.Stop(quit)
		select {
		case <-quit:
			_ = r.Dump(w) // the stacks are to follow, whether this can be written or not
			signal.Reset(syscall.SIGQUIT)
			_ = syscall.Kill(os.Getpid(), syscall.SIGQUIT)
		case <-stopped:
		}
	})
	return sync.OnceFunc(func() { close(stopped); waiting.Wait() })
}

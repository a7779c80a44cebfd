//go:build unix

package flight

import (
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// DumpOnQuit writes all events to w, or to standard error if w is nil, when the process gets
// SIGQUIT, as from Ctrl-\ or kill -QUIT. Then, after five seconds at the latest, the signal
// is sent again, to do what it does otherwise: the Go runtime writes the stacks of all
// goroutines and ends the process. A program that asks for the signal itself therefore
// hears it twice, and goes on. Stop ends that.
func (r *Recorder) DumpOnQuit(w io.Writer) (stop func()) {
	if w == nil {
		w = os.Stderr
	}
	quit, stopped := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(quit, syscall.SIGQUIT)
	var waiting sync.WaitGroup
	waiting.Go(func() {
		defer signal.Stop(quit)
		select {
		case <-quit:
			r.finally(w, -1)
			signal.Stop(quit) // and no more: another recorder may still be writing
			_ = syscall.Kill(os.Getpid(), syscall.SIGQUIT)
		case <-stopped:
		}
	})
	return sync.OnceFunc(func() { close(stopped); waiting.Wait() })
}

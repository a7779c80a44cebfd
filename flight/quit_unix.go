//go:build unix

package flight

import (
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// DumpOnQuit writes all events to w, or to standard error if w is nil, when the process receives SIGQUIT, for
// example from Ctrl-\ or kill -QUIT. Then, after at most five seconds, it resends the signal so that the
// default action follows: the Go runtime prints the stack traces of all goroutines and exits. A program that
// handles the signal itself therefore receives it twice and keeps running. stop disables the dump.
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
			signal.Stop(quit) // only for this recorder: another one may still be writing
			_ = syscall.Kill(os.Getpid(), syscall.SIGQUIT)
		case <-stopped:
		}
	})
	return sync.OnceFunc(func() { close(stopped); waiting.Wait() })
}

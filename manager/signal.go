package manager

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// SignalContext returns a context that ends with the first SIGINT or SIGTERM; its cause
// says which. The second signal ends the process at once, with exit code 1. Call it
// once, in main: the goroutine that waits lives as long as the process.
func SignalContext() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		cancel(fmt.Errorf("%w by signal %q", context.Canceled, <-signals))
		<-signals
		os.Exit(1)
	}()
	return ctx
}

package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/page"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/serving"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// Company is the rest of the demo program besides its informer: a controller that fails on some objects and
// is slow on others, a slow handler, and the debug page.
type Company struct {
	page     net.Listener
	recorder *flight.Recorder
}

// NewCompany returns a [Company] that serves the debug page on the listener returned by listen, or nil
// if listen is nil.
func NewCompany(listen func() (net.Listener, error)) (*Company, error) {
	if listen == nil {
		return nil, nil
	}
	page, err := listen()
	if err != nil {
		return nil, fmt.Errorf("page: %w", err)
	}
	return &Company{page: page, recorder: flight.New(flight.DefaultSize)}, nil
}

// Close closes the listener if the page has not been served.
func (c *Company) Close() {
	if c != nil {
		_ = c.page.Close() // the server may have closed it already
	}
}

// Flight returns the program's flight recorder.
func (c *Company) Flight() *flight.Recorder {
	if c == nil {
		return nil
	}
	return c.recorder
}

// Accompany runs the rest of the program for an informer until ctx is done. The informer must not be running
// yet.
func Accompany[T object.Object](ctx context.Context, c *Company, informer *sharedinformer.Informer[T]) (wait func() error, err error) {
	janitor, err := controller.New("janitor", controller.Func(reconcile), controller.Options{Concurrency: 2, Flight: c.recorder})
	if err != nil {
		return nil, err
	}
	janitor.Watch(controller.For(informer))
	informer.AddHandlerWith(dawdler[T](), sharedinformer.HandlerOptions{Name: "auditor"})
	process := debug.New(debug.Options{
		Program: "demo", Informers: debug.Of(companion{informer.View()}), Recorder: c.recorder, Contents: true,
		Controllers: func() []controller.View { return []controller.View{janitor} },
	})
	server, err := serving.New(serving.Options{Name: "page", Listener: c.page, Handler: page.OnlyFor("localhost", page.Of(process.Client())), Drain: time.Second})
	if err != nil {
		return nil, err
	}
	var running sync.WaitGroup
	var worked, served error
	running.Go(func() { worked = janitor.Run(ctx) })
	running.Go(func() { served = server.Run(ctx) })
	return func() error {
		running.Wait()
		return errors.Join(worked, served)
	}, nil
}

// companion exposes an informer to the page.
type companion struct{ view sharedinformer.View }

// Status implements debug.Informers.
func (s companion) Status() []sharedinformer.Status { return []sharedinformer.Status{s.view.Status()} }

// Views returns the view of the informer's cache.
func (s companion) Views() []sharedinformer.View { return []sharedinformer.View{s.view} }

// reconcile pretends to be busy. It fails half of the time on objects named ledger, and is slow on those
// named checkout.
func reconcile(ctx context.Context, r controller.Request) (controller.Result, error) {
	busy := time.Duration(rand.IntN(20)) * time.Millisecond
	if strings.HasPrefix(r.Name, "checkout") {
		busy += 2 * time.Second
	}
	if !pause(ctx, busy) {
		return controller.Result{}, context.Cause(ctx)
	}
	if strings.HasPrefix(r.Name, "ledger") && rand.IntN(2) == 0 {
		return controller.Result{}, errors.New("no volume is available yet")
	}
	return controller.Result{}, nil
}

// dawdler returns a handler that occasionally pauses.
func dawdler[T object.Object]() sharedinformer.Handler[T] {
	heard := 0 // used by one goroutine
	return sharedinformer.HandlerFunc[T](func(ctx context.Context, _ sharedinformer.Event[T]) error {
		if heard++; heard%40 == 0 {
			pause(ctx, 3*time.Second)
		}
		return nil
	})
}

// Tour prints the page's address and some commands to try.
func (c *Company) Tour(console *terminal.Console, server, program string) {
	if c == nil {
		return
	}
	say := func(what, text string) { console.State(time.Now(), "%-12s  %s", what, text) }
	at := "http://" + c.page.Addr().String()
	say("page", at+debug.Path)
	for _, try := range []string{
		"top --attach " + at,
		"get --attach " + at,
		"doctor --attach " + at,
		"check --attach " + at + " --server " + server,
		"record pods -A -o demo.recording --server " + server,
	} {
		say("try", program+" "+try)
	}
}

package demo

import (
	"context"
	"net/http"
	"time"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
)

// FaultInterval is the time between faults.
const FaultInterval = 10 * time.Second

const (
	firstFault = 5 * time.Second
	outage     = 3 * time.Second
)

// Saboteur injects faults at regular intervals.
type Saboteur struct {
	Server  *apiservertest.Server // the server to inject faults into
	Console *terminal.Console     // prints a message per fault
}

// sabotage is one kind of fault. Most kinds close all connections, which makes the client send its next
// request immediately.
type sabotage struct {
	what string
	do   func(ctx context.Context, srv *apiservertest.Server)
}

// Run keeps injecting faults until ctx is done.
func (s *Saboteur) Run(ctx context.Context) {
	faults := sabotages()
	wait := firstFault
	for n := 0; pause(ctx, wait); n++ {
		wait = FaultInterval
		f := faults[n%len(faults)]
		s.Server.Faults().Clear()
		s.Console.Fault(time.Now(), "%-12s  %s", "fault", f.what)
		f.do(ctx, s.Server)
	}
}

func sabotages() []sabotage {
	// failing makes the next watches fail, and forces the client to open new ones.
	failing := func(faults ...apiservertest.Fault) func(context.Context, *apiservertest.Server) {
		return func(_ context.Context, srv *apiservertest.Server) {
			for _, f := range faults {
				srv.Faults().Add(f)
			}
			srv.Restart()
		}
	}
	watches := func(count int, do apiservertest.Action) apiservertest.Fault {
		return apiservertest.Fault{Verb: "watch", Count: count, Do: []apiservertest.Action{do}}
	}
	slow := apiservertest.Delay{For: 2 * time.Second}
	return []sabotage{
		{"the connection is cut", failing()},
		{"the history is compacted while no watch is open: 410", failing(watches(1, apiservertest.Compacted{}))},
		{"two responses with status 500", failing(watches(2, apiservertest.Fail{Code: http.StatusInternalServerError}))},
		{"a change is garbled in transit", failing(watches(1, apiservertest.Garble{Frame: 1}))},
		{"410 again, and the list is slow", failing(watches(1, apiservertest.Compacted{}),
			apiservertest.Fault{Verb: "watch", Skip: 1, Count: 1, Do: []apiservertest.Action{slow}},
			apiservertest.Fault{Verb: "list", Count: 1, Do: []apiservertest.Action{slow}})},
		{"too many requests, retry in 2 s", failing(watches(1, apiservertest.Fail{Code: http.StatusTooManyRequests, RetryAfter: "2"}))},
		{"the server is down for 3 s", func(ctx context.Context, srv *apiservertest.Server) {
			srv.Down()
			pause(ctx, outage)
			srv.Up()
		}},
	}
}

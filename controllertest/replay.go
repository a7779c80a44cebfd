package controllertest

import (
	"testing"
	"time"

	"github.com/millrace-dev/millrace/internal/jitter"
	"github.com/millrace-dev/millrace/recording"
)

// Replay runs body in a bubble where the informers of Env.Factory receive what a recording
// has: lists, watches, errors and cuts, as they came and with the times between. They go
// through the same states, events and failures in the same order (D02). A list or watch that
// was not recorded fails with an error that names what the file has. Writes, and reads of
// single objects, go to Env.Server, where a test finds what a controller wrote.
//
// The recording goes on when time does: see Env.PlayToEnd and Env.Settle. What Env.Put
// and the like do is not seen by the informers.
//
// A file that is no recording, or goes on for more than 31 days, fails the test. Of one that is
// damaged, or cut off by a crash, what comes before is played, and the test's log says where that
// ends.
func Replay(t *testing.T, file string, body func(e *Env)) {
	t.Helper()
	ReplayWith(t, file, Options{}, body)
}

// ReplayWith is Replay with options.
func ReplayWith(t *testing.T, file string, o Options, body func(e *Env)) {
	t.Helper()
	f, err := recording.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	if d := length(f); d > maxPlayed {
		t.Fatalf("recording %s: it goes on for %d days, and a test plays %d at most: record with a smaller MaxSize, which keeps less of what is old", file, d/day, maxPlayed/day)
	}
	if f.Damage != nil {
		t.Logf("%v: what comes before is played", f.Damage)
	}
	// A client that waits for as long as it may never comes earlier than the recorded one.
	defer jitter.Longest()()
	o.recording = f
	RunWith(t, o, body)
}

const (
	day = 24 * time.Hour

	// maxPlayed is how long a recording may go on. Informers that it does not suit ask again
	// every minute, and each time the test's log has a line of it.
	maxPlayed = 31 * day
)

// length is how long a recording is played.
func length(f *recording.File) time.Duration {
	if len(f.Requests) == 0 {
		return 0
	}
	return f.Duration - f.Requests[0].At
}

// PlayToEnd lets time go on until all was played of what the informers have asked for, and
// then waits until everything is quiet. It fails the test if they do not ask for all of it,
// as they do with other options than the recorded ones. It is for Replay alone.
func (e *Env) PlayToEnd() {
	e.Helper()
	e.mustLive("PlayToEnd")
	if e.replay == nil {
		e.Fatal("PlayToEnd without a recording: use Replay in the place of Run")
	}
	if err := e.replay.Wait(e.ctx); err != nil {
		e.Fatal(err)
	}
	e.settle()
}

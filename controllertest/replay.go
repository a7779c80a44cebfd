package controllertest

import (
	"testing"
	"time"

	"github.com/millrace-dev/millrace/internal/jitter"
	"github.com/millrace-dev/millrace/recording"
)

// Replay runs body in a bubble where the informers in Env.Factory receive the contents of a recording:
// lists, watches, errors and disconnections, in the recorded order and at the recorded times. The informers
// go through the same states, events and failures in the same order (D02). If a list or watch was not
// recorded, it fails with an error that lists the recorded ones. Writes and reads of single objects go to
// Env.Server, so a test can check what a controller wrote.
//
// The recording advances with bubble time: see [Env.PlayToEnd] and [Env.Settle]. Informers do not see
// the effects of [Put] and [Delete].
//
// The test fails if the file is not a recording or lasts longer than 31 days. If the file is corrupted,
// or truncated by a crash, the recording is played up to that point, and the test's log shows where it
// ends.
func Replay(t *testing.T, file string, body func(e *Env)) {
	t.Helper()
	ReplayWith(t, file, Options{}, body)
}

// ReplayWith is [Replay] with options.
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
		t.Fatalf("recording %s: it lasts %d days, but a test plays at most %d: record with a smaller MaxSize, which keeps less old data", file, d/day, maxPlayed/day)
	}
	if f.Damage != nil {
		t.Logf("%v: the recording is played up to that point", f.Damage)
	}
	// With maximum jitter, no client sends a request before the recorded client did.
	defer jitter.Longest()()
	o.recording = f
	RunWith(t, o, body)
}

const (
	day = 24 * time.Hour

	// maxPlayed limits a recording's duration. Without a limit, informers that do not match the recording
	// would retry every minute and log a line each time.
	maxPlayed = 31 * day
)

// length returns the time it takes to play back a recording.
func length(f *recording.File) time.Duration {
	if len(f.Requests) == 0 {
		return 0
	}
	return f.Duration - f.Requests[0].At
}

// PlayToEnd advances the time until everything that the informers request has been played, and then waits
// until everything is quiet. It fails the test if they do not request the whole recording, for example
// because their options differ from those used for the recording. It works only in [Replay].
func (e *Env) PlayToEnd() {
	e.Helper()
	e.mustLive("PlayToEnd")
	if e.replay == nil {
		e.Fatal("PlayToEnd without a recording: use Replay instead of Run")
	}
	if err := e.replay.Wait(e.ctx); err != nil {
		e.Fatal(err)
	}
	e.settle()
}

package playback

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/recording"
	"github.com/millrace-dev/millrace/reflector"
)

// Speed is the replay speed.
type Speed struct {
	Text  string  // a number such as 10, or max
	Times float64 // parsed Text, set by Check
}

// Check validates and parses the speed.
func (f *Speed) Check() error {
	if f.Text == "max" {
		f.Times = math.Inf(1)
		return nil
	}
	times, err := strconv.ParseFloat(strings.TrimSuffix(f.Text, "x"), 64)
	if err != nil || !(times > 0) || math.IsInf(times, 0) {
		return exit.Usage("--speed %q: want a positive number, such as 10, or max", f.Text)
	}
	f.Times = times
	return nil
}

// Timing returns an informer's timeouts. They are shortened according to the speed, but stay long enough for
// slow machines.
func (f *Speed) Timing() reflector.Timing {
	if f.Times <= 1 {
		return reflector.Timing{}
	}
	scaled := func(d, least time.Duration) time.Duration { return max(time.Duration(float64(d)/f.Times), least) }
	return reflector.Timing{
		WatchTimeout: scaled(5*time.Minute, 15*time.Second), WatchMargin: scaled(30*time.Second, time.Second),
		StallTimeout: scaled(time.Minute, 5*time.Second), StreamIdle: scaled(10*time.Second, 5*time.Second), StreamTimeout: scaled(5*time.Minute, 30*time.Second),
		Backoff: reflector.Backoff{Initial: scaled(800*time.Millisecond, time.Millisecond), Max: scaled(30*time.Second, time.Millisecond), Reset: scaled(2*time.Minute, time.Second)},
	}
}

// Judge retries after recorded failures, until the recording ends.
func Judge(f *failure.Failure) failure.Verdict {
	if _, unrecorded := errors.AsType[*recording.UnrecordedError](f.Err); unrecorded {
		return failure.Stop
	}
	return failure.Retry
}

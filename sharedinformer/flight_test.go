package sharedinformer

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/object"
)

// The flight recorder contains the events of an object up to the call of each handler, including
// handlers that are called for many changes in a row.
func TestTheFlightRecorderKnowsWhatHappened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recorder := flight.New(flight.DefaultSize)
		from := newFixed(things(3)...)
		i := informerOf(from, Options{Flight: recorder})
		add := func(name string, lag Lag, each func() error) {
			i.AddHandlerWith(HandlerFunc[partial](func(context.Context, Event[partial]) error { return each() }), HandlerOptions{Name: name, Lag: lag})
		}
		add("quick", Unbounded, func() error { return nil })
		add("slow", Unbounded, func() error { time.Sleep(time.Second); return nil })
		add("coalescing", Coalesce, func() error { time.Sleep(time.Second); return nil })
		var mended atomic.Bool
		add("broken", Unbounded, func() error {
			if !mended.Load() {
				return errors.New("oh")
			}
			return nil
		})
		defer runFor(t, i)()
		time.Sleep(10 * time.Second)
		mended.Store(true)
		for n := range 200 {
			from.change("t1", 101, 20+n)
		}
		from.change("t2", 102, 1000)
		time.Sleep(10 * time.Minute)

		told := make(map[string]int)
		last := make(map[string]string)
		for _, e := range recorder.Timeline(i.Name(), object.KeyOf(thing("t1", 101, 1))) {
			told[e.Name+" "+e.Kind.String()] += max(e.Count, 1)
			last[e.Name] = e.What()
		}
		require.Equal(t, 200, told[i.Name()+" applied"])
		require.GreaterOrEqual(t, told["quick told"], 200)
		require.GreaterOrEqual(t, told["slow told"], 200)
		require.Positive(t, told["coalescing told"])
		require.Equal(t, 1, told["broken failed"], "the initial one")
		require.Contains(t, last["slow"], "update rv 219 in 1s")

		all := recorder.Entries(nil)
		require.Condition(t, func() bool {
			for _, e := range all {
				if e.Kind == flight.Replaced && e.Count == 3 && e.Change == "add" {
					return true
				}
			}
			return false
		})
		var states []string
		for _, e := range all {
			if e.Kind == flight.Turned {
				states = append(states, e.Outcome)
			}
		}
		require.Contains(t, fmt.Sprint(states), "Listing Connecting Watching")
		for _, s := range recorder.Status().Tracks {
			if s.Name == "slow" {
				require.Equal(t, flight.Calling, s.Stages[0].Stage)
				require.InEpsilon(t, time.Second, s.Stages[0].Hour.P50, 0.5)
			}
		}
	})
}

// Every call of a handler is counted in the flight recorder.
func TestTheFlightRecorderCountsEveryCall(t *testing.T) {
	for _, hook := range []string{"none", "OnSync", "OnError"} {
		t.Run(hook, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				recorder := flight.New(flight.DefaultSize)
				opts := Options{Flight: recorder}
				how := HandlerOptions{Name: "h"}
				switch hook {
				case "OnSync":
					how.OnSync = func() {}
				case "OnError":
					opts.OnError = func(context.Context, *failure.Failure) failure.Verdict { return failure.Retry }
				}
				from := newFixed(things(40)...)
				i := informerOf(from, opts)
				r := i.AddHandlerWith(HandlerFunc[partial](func(_ context.Context, e Event[partial]) error {
					if hook == "OnError" && e.Object.Name == "t20" {
						return errors.New("oh")
					}
					return nil
				}), how)
				defer runFor(t, i)()
				require.NoError(t, i.WaitForSync(t.Context()))
				synctest.Wait()
				told := 0
				for _, e := range recorder.Entries(nil) {
					if e.Kind == flight.Told {
						told += e.Count
					}
				}
				require.EqualValues(t, r.Status().Delivered, told)
			})
		})
	}
}

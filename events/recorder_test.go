package events_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/events"
	"github.com/millrace-dev/millrace/object"
)

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
}

// The API server's own check of an event is stricter than the simulation's.
func requireValid(t testing.TB, event *eventsv1.Event) {
	t.Helper()
	require.False(t, event.EventTime.IsZero())
	for _, s := range []string{event.ReportingController, event.ReportingInstance, event.Action, event.Reason} {
		require.NotEmpty(t, s)
		require.LessOrEqual(t, len(s), 128)
	}
	require.Contains(t, []string{"Normal", "Warning"}, event.Type)
	require.LessOrEqual(t, len(event.Note), 1024)
}

func TestEventsThatRepeatAreCounted(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		recorder := events.New(e.Client, "example.com/test", events.Options{Instance: "me"})
		a, node := controllertest.Put(e, pod("a")), controllertest.Put(e, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
		e.Start(recorder)
		for range 10 {
			recorder.Recordf(a, "", "Scaled", "Scale", "to %d", 0)
		}
		recorder.Record(a, events.Event{Type: "Warning", Reason: "Scaled", Action: "Scale", Note: string(make([]byte, 5000)), Related: node})
		recorder.Recordf(node, "Normal", "Drained", "Drain", "all gone")
		e.Settle(0)
		all := controllertest.All[*eventsv1.Event](e)
		require.Len(e, all, 3)
		for _, event := range all {
			requireValid(e, event)
			require.Nil(e, event.Series)
		}
		find := func(reason, typ string) *eventsv1.Event {
			for _, event := range controllertest.All[*eventsv1.Event](e) {
				if event.Reason == reason && event.Type == typ {
					return event
				}
			}
			return nil
		}
		first := find("Scaled", "Normal")
		require.Equal(e, "to 0", first.Note)
		require.Equal(e, corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "a", UID: a.UID, ResourceVersion: a.ResourceVersion}, first.Regarding)
		require.Equal(e, "n1", find("Scaled", "Warning").Related.Name)
		require.Equal(e, "default", find("Drained", "Normal").Namespace)

		e.Settle(time.Minute)
		require.EqualValues(e, 10, find("Scaled", "Normal").Series.Count)
		require.Equal(e, events.Status{Kept: 3, Created: 3, Updated: 1}, recorder.Status())
		e.Settle(time.Hour)
		require.Equal(e, events.Status{Created: 3, Updated: 1}, recorder.Status(), "a series ends")
		recorder.Recordf(a, "", "Scaled", "Scale", "again")
		e.Settle(0)
		require.Len(e, controllertest.All[*eventsv1.Event](e), 4)
	})
}

func TestEventsAreBoundedAndNeverBlock(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		recorder := events.New(e.Client, "example.com/test", events.Options{Limit: 5})
		for n := range 8 { // nobody runs it
			recorder.Recordf(pod(fmt.Sprint("p", n)), "", "Reason", "Act", "note")
		}
		require.Equal(e, events.Status{Waiting: 5, Kept: 5, Dropped: 3}, recorder.Status())
		e.Server.Faults().Add(apiservertest.Fault{Verb: "create", Resource: "events", Count: 5, Do: []apiservertest.Action{apiservertest.Fail{Code: 500}}})
		e.Start(recorder)
		require.Equal(e, events.Status{Waiting: 5, Kept: 5, Dropped: 3}, recorder.Status())
		e.Settle(time.Minute)
		require.Equal(e, events.Status{Kept: 5, Dropped: 3, Created: 5}, recorder.Status())

		e.Server.SetAuthorizer(apiservertest.Deny("", "events"))
		e.Settle(time.Hour)
		recorder.Recordf(pod("x"), "", "Reason", "Act", "note")
		e.Settle(0)
		require.EqualValues(e, 1, recorder.Status().Failed)
		require.Zero(e, recorder.Status().Kept)
	})
}

func TestEventsAreFlushedAtTheEnd(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		recorder := events.New(e.Client, "example.com/test", events.Options{Flush: 3 * time.Second})
		stop := e.Start(recorder)
		for range 7 {
			recorder.Recordf(pod("a"), "", "Reason", "Act", "note")
		}
		stop()
		all := controllertest.All[*eventsv1.Event](e)
		require.Len(e, all, 1)
		require.EqualValues(e, 7, all[0].Series.Count)

		stop = e.Start(recorder)
		e.Server.Faults().Add(apiservertest.Fault{Verb: "create", Resource: "events", Do: []apiservertest.Action{apiservertest.Delay{For: time.Hour}}})
		for n := range 7 {
			recorder.Recordf(pod(fmt.Sprint("p", n)), "", "Reason", "Act", "note")
		}
		began := time.Now()
		stop()
		require.LessOrEqual(e, time.Since(began), 3*time.Second)
	})
}

// recorded runs a recorder and returns the events that are on the server after a while.
func recorded(e *controllertest.Env, record func(*events.Recorder)) []*eventsv1.Event {
	recorder := events.New(e.Client, "example.com/test", events.Options{})
	e.Start(recorder)
	record(recorder)
	e.Settle(2 * time.Minute)
	all := controllertest.All[*eventsv1.Event](e)
	for _, event := range all {
		requireValid(e, event)
	}
	return all
}

func TestDifferentNotesAreSeparateEvents(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		all := recorded(e, func(recorder *events.Recorder) {
			for n := range 1000 {
				recorder.Recordf(pod("a"), "", "Created", "Create", "pod %d", n)
			}
			recorder.Recordf(pod("a"), "", "Created", "Create", "pod 3")
			recorder.Recordf(pod("b"), "", "Created", "Create", "pod 3")
		})
		counts := map[string]int32{}
		for _, event := range all {
			counts[event.Regarding.Name+": "+event.Note] = 1
			if event.Series != nil {
				counts[event.Regarding.Name+": "+event.Note] = event.Series.Count
			}
		}
		want := map[string]int32{"b: pod 3": 1, "a: pod 10": 990} // counts all notes beyond the limit
		for n := range 10 {
			want[fmt.Sprint("a: pod ", n)] = 1
		}
		want["a: pod 3"] = 2
		require.Equal(e, want, counts)
	})
}

// The number of events over time is not limited: sent events do not block others.
func TestEventsAreLimitedOnlyWhileTheyWait(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		recorder := events.New(e.Client, "example.com/test", events.Options{Limit: 10})
		e.Start(recorder)
		for n := range 100 {
			for range 2 {
				recorder.Recordf(pod(fmt.Sprint("p", n)), "", "Deployed", "Deploy", "note")
			}
			e.Settle(100 * time.Millisecond)
		}
		e.Settle(time.Minute)
		all := controllertest.All[*eventsv1.Event](e)
		require.Len(e, all, 100)
		for _, event := range all {
			require.EqualValues(e, 2, event.Series.Count)
		}
		require.Equal(e, events.Status{Kept: 10, Created: 100, Updated: 100}, recorder.Status())
	})
}

func TestEventsOutliveAnOutage(t *testing.T) {
	for _, trouble := range []apiservertest.Action{
		apiservertest.Fail{Code: http.StatusInternalServerError},
		apiservertest.Fail{Code: http.StatusTooManyRequests, RetryAfter: "5"},
	} {
		controllertest.Run(t, func(e *controllertest.Env) {
			all := recorded(e, func(recorder *events.Recorder) {
				e.Server.Faults().Add(apiservertest.Fault{Verb: "create", Resource: "events", Do: []apiservertest.Action{trouble}})
				for n := range 300 {
					recorder.Recordf(pod(fmt.Sprint("p", n)), "", "Happened", "Act", "note")
					e.Settle(time.Second)
				}
				require.Less(e, e.Server.Stats().Requests("create", "events"), 60, "a server in trouble is left alone")
				e.Server.Faults().Clear()
				e.Settle(time.Minute)
				require.Zero(e, recorder.Status().Failed)
			})
			require.Len(e, all, 300)
		})
	}
}

// One event that the server fails at does not hold up the others.
func TestOneEventDoesNotDelayTheOthers(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		recorder := events.New(e.Client, "example.com/test", events.Options{})
		e.Start(recorder)
		for n := range 30 {
			e.Server.Faults().Clear()
			e.Server.Faults().Add(apiservertest.Fault{Verb: "create", Resource: "events", Count: 1, Do: []apiservertest.Action{apiservertest.Fail{Code: 500}}})
			recorder.Recordf(pod(fmt.Sprint("p", n)), "", "Happened", "Act", "note")
			e.Settle(time.Second)
			require.GreaterOrEqual(e, len(controllertest.All[*eventsv1.Event](e)), n)
		}
	})
}

// The server accepts events whatever their object is.
func TestEventsOfOddObjectsAreAccepted(t *testing.T) {
	var none *corev1.Pod
	controllertest.Run(t, func(e *controllertest.Env) {
		all := recorded(e, func(recorder *events.Recorder) {
			role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "system:node"}}
			recorder.Record(role, events.Event{Reason: "Odd", Action: "Act", Related: none})
			recorder.Record(pod(strings.Repeat("a", 229)+"-b"), events.Event{Reason: "Long", Action: "Act"}) // cut behind the '-'
			recorder.Record(pod("a"), events.Event{Type: "warning", Reason: strings.Repeat("ü", 100), Note: strings.Repeat("ü", 1000)})
			recorder.Record(pod("a"), events.Event{})
			recorder.Record(none, events.Event{Reason: "Nil"})
			recorder.Record(nil, events.Event{Reason: "Nil"})
			require.EqualValues(e, 2, recorder.Status().Dropped)
		})
		require.Len(e, all, 4)
		for _, event := range all {
			require.Empty(e, content.IsDNS1123Subdomain(event.Name), "a real server refuses %q", event.Name)
		}
	})
}

// A server keeps an event for an hour or so; a series may last longer.
func TestASeriesOutlivesItsEvent(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		all := recorded(e, func(recorder *events.Recorder) {
			for range 3 {
				recorder.Recordf(pod("a"), "", "Happened", "Act", "note")
				e.Settle(2 * time.Minute)
			}
			controllertest.Delete[*eventsv1.Event](e, object.KeyOf(controllertest.All[*eventsv1.Event](e)[0]))
			recorder.Recordf(pod("a"), "", "Happened", "Act", "note")
		})
		require.Len(e, all, 1)
		require.EqualValues(e, 4, all[0].Series.Count)
	})
}

func TestTheNameOfARecorderIsChecked(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		err := events.New(e.Client, "my controller", events.Options{}).Run(e.Context())
		require.ErrorContains(e, err, "invalid event controller name \"my controller\": ")
	})
}

// Events that come too late are counted.
func TestEventsAfterTheEndAreDropped(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		recorder := events.New(e.Client, "example.com/test", events.Options{})
		e.Start(recorder)()
		recorder.Recordf(pod("a"), "", "Happened", "Act", "note")
		require.Equal(e, events.Status{Dropped: 1}, recorder.Status())
		e.Start(recorder)
		recorder.Recordf(pod("a"), "", "Happened", "Act", "note")
		e.Settle(0)
		require.EqualValues(e, 1, recorder.Status().Created)
	})
}

// A repetition after the end is not sent, and counts as dropped too.
func TestARepetitionAfterTheEndIsDropped(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		recorder := events.New(e.Client, "example.com/test", events.Options{})
		stop := e.Start(recorder)
		recorder.Recordf(pod("a"), "", "Happened", "Act", "note")
		e.Settle(time.Second)
		stop()
		recorder.Recordf(pod("a"), "", "Happened", "Act", "note")
		require.EqualValues(e, 1, recorder.Status().Dropped)
	})
}

// An event that waits for longer than a series lasts counts its repetitions all the same.
func TestAnEventThatWaitsForLongerThanASeriesLasts(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		recorder := events.New(e.Client, "example.com/test", events.Options{})
		e.Start(recorder)
		e.Server.Faults().Add(apiservertest.Fault{Verb: "create", Resource: "events", Do: []apiservertest.Action{apiservertest.Fail{Code: http.StatusInternalServerError}}})
		recorder.Recordf(pod("a"), "", "Happened", "Act", "note")
		e.Settle(7 * time.Minute) // of the ten for which it is tried
		recorder.Recordf(pod("a"), "", "Happened", "Act", "note")
		e.Server.Faults().Clear()
		e.Settle(3 * time.Minute)
		all := controllertest.All[*eventsv1.Event](e)
		require.Len(e, all, 1)
		require.EqualValues(e, 2, all[0].Series.Count)
		e.Settle(time.Hour)
		require.Equal(e, events.Status{Created: 1, Updated: 1}, recorder.Status(), "a series ends")
		recorder.Recordf(pod("b"), "", "Happened", "Act", "note")
		e.Settle(0)
		require.EqualValues(e, 2, recorder.Status().Created)
	})
}

// An event that waits and is recorded again is as new as its last record.
func TestEventRecordedAgainIsRetried(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		recorder := events.New(e.Client, "example.com/test", events.Options{})
		e.Start(recorder)
		e.Server.Faults().Add(apiservertest.Fault{Verb: "create", Resource: "events", Do: []apiservertest.Action{apiservertest.Fail{Code: 500}}})
		for _, name := range []string{"a", "b", "c", "d"} { // so many that the server is down
			recorder.Recordf(pod(name), "", "Happened", "Act", "note")
		}
		e.Settle(9 * time.Minute)
		recorder.Recordf(pod("a"), "", "Happened", "Act", "note")
		e.Settle(5 * time.Minute)
		require.Equal(e, events.Status{Waiting: 1, Kept: 1, Failed: 3}, recorder.Status())
		e.Settle(10 * time.Minute)
		require.Equal(e, events.Status{Failed: 5}, recorder.Status(), "both that were recorded of a")
		recorder.Recordf(pod("a"), "", "Happened", "Act", "note")
		e.Settle(9 * time.Minute)
		recorder.Recordf(pod("a"), "", "Happened", "Act", "note")
		e.Settle(5 * time.Minute)
		e.Server.Faults().Clear()
		e.Settle(3 * time.Minute)
		all := controllertest.All[*eventsv1.Event](e)
		require.Len(e, all, 1)
		require.EqualValues(e, 2, all[0].Series.Count)
	})
}

// At most Limit events wait, even while some are being sent to a server that does not respond, and
// events that are too old make room.
func TestEventsAreBoundedWhileTheServerHangs(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		recorder := events.New(e.Client, "example.com/test", events.Options{Limit: 10})
		e.Start(recorder)
		e.Server.Faults().Add(apiservertest.Fault{Verb: "create", Resource: "events", Do: []apiservertest.Action{apiservertest.Delay{For: 24 * time.Hour}}})
		most := 0
		for n := range 3600 {
			recorder.Recordf(pod(fmt.Sprint("p", n)), "", "Happened", "Act", "note")
			e.Settle(time.Second)
			most = max(most, recorder.Status().Kept)
		}
		require.Equal(e, 10, most)
		require.GreaterOrEqual(e, recorder.Status().Failed, uint64(30), "all that waited for ten minutes")
		require.EqualValues(e, 3600, recorder.Status().Dropped+recorder.Status().Failed+uint64(recorder.Status().Waiting))
		e.Server.Faults().Clear()
		e.Settle(2 * time.Minute)
		require.Zero(e, recorder.Status().Waiting)
	})
}

// shown returns the number of occurrences in the server's events.
func shown(e *controllertest.Env) (n uint64) {
	for _, event := range controllertest.All[*eventsv1.Event](e) {
		if event.Series == nil {
			n++
		} else {
			n += uint64(event.Series.Count)
		}
	}
	return n
}

// The last count of a series that makes room for another reaches the server, or is counted as failed.
func TestTheCountOfASeriesThatMakesRoom(t *testing.T) {
	for name, fault := range map[string]apiservertest.Action{"fails": apiservertest.Fail{Code: 500}, "lasts": apiservertest.Delay{For: 5 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			controllertest.Run(t, func(e *controllertest.Env) {
				recorder := events.New(e.Client, "example.com/test", events.Options{Limit: 1})
				e.Start(recorder)
				recorded := uint64(0)
				record := func(about string) {
					recorder.Recordf(pod(about), "", "Reason", "Act", "note")
					e.Settle(time.Second)
					recorded++
				}
				record("a")
				record("a")
				e.Server.Faults().Add(apiservertest.Fault{Verb: "patch", Resource: "events", Count: 1, Do: []apiservertest.Action{fault}})
				record("b")
				record("a") // while the count is written, if that lasts
				e.Settle(5 * time.Minute)
				s := recorder.Status()
				require.Equal(e, recorded, shown(e)+s.Dropped+s.Failed, "%+v", s)
				require.Equal(e, name == "fails", s.Failed == 1, "%+v", s)
			})
		})
	}
}

// The last count of a series that makes room is still written if Run's context ends in the meantime.
func TestTheCountOfASeriesThatMakesRoomAtTheEnd(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		recorder := events.New(e.Client, "example.com/test", events.Options{Limit: 1})
		stop := e.Start(recorder)
		record := func(about string) {
			recorder.Recordf(pod(about), "", "Reason", "Act", "note")
			e.Settle(time.Second)
		}
		record("a")
		record("a")
		e.Server.Faults().Add(apiservertest.Fault{Verb: "patch", Resource: "events", Count: 1, Do: []apiservertest.Action{apiservertest.Delay{For: 9 * time.Second}}})
		record("b")
		stop()
		require.Zero(e, recorder.Status().Failed)
		require.EqualValues(e, 3, shown(e))
	})
}

// Repetitions while a count cannot be written belong to the same series, however long that lasts.
func TestFailedCountDoesNotEndASeries(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		recorder := events.New(e.Client, "example.com/test", events.Options{})
		e.Start(recorder)
		recorder.Recordf(pod("a"), "", "Reason", "Act", "note")
		e.Settle(0)
		e.Server.Faults().Add(apiservertest.Fault{Verb: "patch", Resource: "events", Do: []apiservertest.Action{apiservertest.Fail{Code: 500}}})
		recorder.Recordf(pod("a"), "", "Reason", "Act", "note")
		e.Settle(10 * time.Minute)
		recorder.Recordf(pod("a"), "", "Reason", "Act", "note")
		e.Server.Faults().Clear()
		e.Settle(2 * time.Minute)
		require.EqualValues(e, 3, shown(e))
	})
}

// An event that was sent, is gone from the server and cannot be sent again has not failed: only
// occurrences that the server never knew of have.
func TestEventDeletedByTheServerHasNotFailed(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		recorder := events.New(e.Client, "example.com/test", events.Options{})
		e.Start(recorder)
		for range 3 {
			recorder.Recordf(pod("a"), "", "Reason", "Act", "note")
		}
		e.Settle(2 * time.Minute)
		controllertest.Delete[*eventsv1.Event](e, object.KeyOf(controllertest.All[*eventsv1.Event](e)[0]))
		e.Server.Faults().Add(apiservertest.Fault{Verb: "create", Resource: "events", Do: []apiservertest.Action{apiservertest.Fail{Code: http.StatusForbidden}}})
		recorder.Recordf(pod("a"), "", "Reason", "Act", "note")
		e.Settle(2 * time.Minute)
		require.Equal(e, events.Status{Created: 1, Updated: 1, Failed: 1}, recorder.Status())
	})
}

// Events and counts that cannot be flushed are logged. One that fails does not block the others.
func TestCountsAreFlushedOrLogged(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		var log strings.Builder
		recorder := events.New(e.Client, "example.com/test", events.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		record := func(name string) {
			recorder.Recordf(pod(name), "", "Reason", "Act", "note")
			e.Settle(0)
		}
		fail := func(verb string, times int) {
			e.Server.Faults().Add(apiservertest.Fault{Verb: verb, Resource: "events", Count: times, Do: []apiservertest.Action{apiservertest.Fail{Code: 500}}})
		}
		stop := e.Start(recorder)
		record("a")
		record("a")
		fail("create", 0)
		record("b")
		fail("patch", 1)
		stop()
		require.EqualValues(e, 2, shown(e), "the count is tried more than once, whatever happens to others")
		require.Contains(e, log.String(), "events=1 repetitions=0")

		e.Server.Faults().Clear()
		stop = e.Start(recorder)
		e.Settle(time.Second)
		require.EqualValues(e, 3, shown(e), "what the first Run left is not kept waiting")
		record("a")
		fail("patch", 0)
		stop()
		require.Contains(e, log.String(), "events=0 repetitions=1")
	})
}

// Two parts of a program may both run a recorder.
func TestRecorderRunsOnceAtATime(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		recorder := events.New(e.Client, "example.com/test", events.Options{})
		stop := e.Start(recorder)
		e.Settle(time.Second)
		require.ErrorIs(e, recorder.Run(e.Context()), events.ErrRunning)
		recorder.Recordf(pod("a"), "", "Reason", "Act", "note")
		e.Settle(time.Second)
		require.EqualValues(e, 1, recorder.Status().Created)
		stop()
		recorder.Recordf(pod("b"), "", "Reason", "Act", "note")
		require.EqualValues(e, 1, recorder.Status().Dropped)
		e.Start(recorder)
		recorder.Recordf(pod("b"), "", "Reason", "Act", "note")
		e.Settle(time.Second)
		require.EqualValues(e, 2, recorder.Status().Created)
	})
}

// Counts that the server does not accept delay the others by a minute, and are given up.
func TestCountsThatFailDoNotStopTheOthers(t *testing.T) {
	hangs := func(a apiservertest.Attributes) bool {
		if a.Verb == "patch" && a.Namespace == "bank" {
			time.Sleep(time.Minute)
		}
		return true
	}
	controllertest.RunWith(t, controllertest.Options{Server: apiservertest.Options{Authorize: hangs}}, func(e *controllertest.Env) {
		recorder := events.New(e.Client, "example.com/test", events.Options{})
		e.Start(recorder)
		for range 2 {
			for _, name := range []string{"a", "b", "c", "d"} {
				p := pod(name)
				p.Namespace = "bank"
				recorder.Recordf(p, "", "Reason", "Act", "note")
			}
			e.Settle(time.Second)
			recorder.Recordf(pod("a"), "", "Reason", "Act", "note")
			e.Settle(time.Second)
		}
		e.Settle(4 * time.Minute)
		require.Equal(e, events.Status{Kept: 5, Created: 5, Updated: 1}, recorder.Status())
		e.Settle(10 * time.Minute)
		require.Equal(e, events.Status{Created: 5, Updated: 1, Failed: 4}, recorder.Status())
	})
}

// The same for events that cannot be created.
func TestEventsThatFailDoNotStopTheCounts(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		recorder := events.New(e.Client, "example.com/test", events.Options{})
		e.Start(recorder)
		recorder.Recordf(pod("a"), "", "Reason", "Act", "note")
		e.Settle(time.Second)
		e.Server.Faults().Add(apiservertest.Fault{Verb: "create", Resource: "events", Do: []apiservertest.Action{apiservertest.Fail{Code: 500}}})
		for _, name := range []string{"b", "c", "d"} {
			recorder.Recordf(pod(name), "", "Reason", "Act", "note")
		}
		e.Settle(time.Second)
		recorder.Recordf(pod("a"), "", "Reason", "Act", "note")
		e.Settle(5 * time.Minute)
		require.Equal(e, events.Status{Waiting: 3, Kept: 4, Created: 1, Updated: 1}, recorder.Status())
	})
}

package controller_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/object"
)

// typedNil is an error whose Error method panics on the nil pointer that users return by mistake.
type typedNil struct{ text string }

func (e *typedNil) Error() string { return e.text }

// The flight recorder shows the path of a request: why it was requested, how long it waited, how it
// ended, and what comes next.
func TestTheFlightRecorderKnowsEachRequest(t *testing.T) {
	controllertest.RunWith(t, controllertest.Options{AllowPanics: true}, func(e *controllertest.Env) {
		recorder := flight.New(flight.DefaultSize)
		failures := []error{errors.New("no shop"), (*typedNil)(nil)}
		j := &journal{do: func(context.Context, controller.Request) (controller.Result, error) {
			time.Sleep(3 * time.Second)
			if len(failures) == 0 {
				return controller.Result{RequeueAfter: time.Hour}, nil
			}
			err := failures[0]
			failures = failures[1:]
			return controller.Result{}, err
		}}
		pods := factory.Informer[*corev1.Pod](e.Factory)
		c := newController(e, j, controller.Options{Flight: recorder}, controller.For(pods))
		e.Start(c)
		controllertest.Put(e, pod("a"))
		time.Sleep(time.Minute)
		var lines []string
		for _, entry := range recorder.Timeline("", object.Key{Namespace: "shop", Name: "a"}) {
			lines = append(lines, entry.What())
		}
		require.Equal(e, strings.TrimSpace(`
asked shop/a created: pods
taken shop/a
done shop/a error in 3s: no shop
asked shop/a failed
taken shop/a attempt 2
done shop/a attempt 2 error in 3s: a *controller_test.typedNil, which reconciler returned as an error, panicked: runtime error: invalid memory address or nil pointer dereference
asked shop/a failed
taken shop/a attempt 3
done shop/a attempt 3 again later in 3s
asked shop/a requeued after 1h0m0s`), strings.Join(lines, "\n"))
		for _, track := range recorder.Status().Tracks {
			for _, s := range track.Stages {
				require.EqualValues(e, 3, s.Hour.Count)
			}
		}
	})
}

// While one worker is busy a request waits, and the recorder says for how long.
func TestTheFlightRecorderKnowsHowLongARequestWaited(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		recorder := flight.New(flight.DefaultSize)
		j := &journal{do: func(context.Context, controller.Request) (controller.Result, error) {
			time.Sleep(5 * time.Second)
			return controller.Result{}, nil
		}}
		c := newController(e, j, controller.Options{Flight: recorder}, controller.For(factory.Informer[*corev1.Pod](e.Factory)))
		e.Start(c)
		controllertest.Put(e, pod("a"))
		controllertest.Put(e, pod("b"))
		time.Sleep(time.Minute)
		taken := recorder.Entries(func(e *flight.Entry) bool { return e.Kind == flight.Taken })
		require.Len(e, taken, 2)
		require.Equal(e, 5*time.Second, taken[1].Took.Round(time.Millisecond))
	})
}

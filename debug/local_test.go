package debug_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/object"
)

func TestAProcessAsksItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recorder := flight.New(flight.DefaultSize)
		client := debug.New(debug.Options{Program: "self", Recorder: recorder}).Client()
		status, err := client.Status(t.Context())
		require.NoError(t, err)
		require.Equal(t, "self", status.Process.Program)

		_, err = client.Objects(t.Context(), debug.Which{Informer: "pods"}, debug.Page{})
		refused, ok := err.(*debug.RefusedError)
		require.True(t, ok, err)
		require.Equal(t, 404, refused.Code)

		// A stream ends with its context and with its reader.
		for _, byContext := range []bool{true, false} {
			ctx, cancel := context.WithCancel(t.Context())
			track := recorder.Track(flight.Label{Role: flight.Informer, Name: "pods"})
			go func() {
				time.Sleep(time.Second)
				track.Record(&flight.Event{Kind: flight.Applied, Key: object.Key{Namespace: "shop", Name: "web-1"}, At: time.Now()})
				if byContext {
					time.Sleep(time.Second)
					cancel()
				}
			}()
			seen := 0
			for e, err := range client.Events(ctx, "", object.Key{}) {
				require.NoError(t, err)
				require.Equal(t, "web-1", e.Key.Name)
				if seen++; !byContext {
					break
				}
			}
			require.Equal(t, 1, seen)
			cancel()
			synctest.Wait() // a leaked goroutine fails the bubble
		}
	})
}

func TestPanickingProcessReportsThePanicToItself(t *testing.T) {
	client := debug.New(debug.Options{Controllers: func() []controller.View { panic("no controllers") }}).Client()
	_, err := client.Status(t.Context())
	require.ErrorContains(t, err, "no controllers")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = client.Status(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

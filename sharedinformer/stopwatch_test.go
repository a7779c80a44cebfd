package sharedinformer

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Waits for the sync, the log and the status report a long call only if there is one, and not many
// short calls after quick ones.
func TestL22_ManyShortCallsAreNotALongOne(t *testing.T) {
	for _, each := range []time.Duration{900 * time.Microsecond, 200 * time.Millisecond, time.Second} {
		t.Run(each.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				i := informerOf(newFixed(things(200)...), Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
				calls := 0
				r := i.AddHandler(HandlerFunc[partial](func(context.Context, Event[partial]) error {
					if calls++; calls > 63 {
						time.Sleep(each)
					}
					return nil
				}))
				stop := runFor(t, i)
				err := i.WaitForSync(t.Context())
				for !r.HasSynced() {
					time.Sleep(time.Second)
				}
				slowest := r.Status().Slowest
				stop()
				if err != nil {
					t.Errorf("no call took longer than %s: %v", each, err)
				}
				if slowest > each+time.Millisecond {
					t.Errorf("Slowest is %s, and no call took longer than %s", slowest, each)
				}
				if text := log.String(); strings.Contains(text, "a handler is blocking") {
					t.Errorf("no call took longer than %s: %s", each, text)
				}
			})
		})
	}
}

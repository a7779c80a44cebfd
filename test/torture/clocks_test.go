package torture

import (
	"context"
	"regexp"
	"time"

	"github.com/millrace-dev/millrace/test/torture/clock"
)

// tolerated is the clock error that may go unnoticed: the certificates of the test are valid since
// an hour ago.
const tolerated = 45 * time.Minute

// clockEpisodes are the episodes with a wrong wall clock in all clients and a right one in the
// servers.
var clockEpisodes = []episode{
	{"the clients' clock steps", false, func(w *world, _ context.Context) {
		terms, managers, failed := w.candidates.terms.Load(), w.office.managers.Load(), w.failed.Load()
		for range 2 + w.random.IntN(4) {
			w.must(clock.Set(time.Duration(w.random.Int64N(int64(2*tolerated))) - tolerated))
			w.hold(500*time.Millisecond, 2*time.Second)
		}
		// It stays wrong. Leases, timeouts and delays use the monotonic clock. Anything that uses
		// the wall clock shows within the duration of a lease.
		w.hold(7*time.Second, 9*time.Second)
		if n := w.candidates.terms.Load() - terms; n != 0 {
			w.complain("the clock stepped, and the election of three has %d more terms", n)
		}
		if n := w.office.managers.Load() - managers; n != 0 {
			w.complain("the clock stepped, and %d managers have followed", n)
		}
		if n := w.failed.Load() - failed; n != 0 {
			all := ""
			for _, f := range w.subjects {
				all += "\n" + f.said(w.began(), regexp.MustCompile(`^never$`))
			}
			w.complain("the clock stepped, and %d failures are reported: %s", n, all)
		}
	}},
	{"the clients' clock is years off", false, func(w *world, _ context.Context) {
		const year = 365 * 24 * time.Hour
		off, words := 20*year, "is after"
		if w.random.IntN(2) == 0 {
			off, words = -50*year, "is before" // an empty battery
		}
		w.must(clock.Set(off))
		w.links((*link).cutAll)
		w.informersSay(`certificate has expired or is not yet valid: current time \S+ ` + words)
		w.lateSays(`configmaps: .*certificate has expired or is not yet valid: current time \S+ `+words, "front")
		w.electorsSay(`certificate has expired or is not yet valid: current time \S+ ` + words)
		w.must(clock.Set(0))
	}},
}

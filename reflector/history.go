package reflector

import (
	"context"
	"time"

	"github.com/millrace-dev/millrace/object"
)

// muteWatch is how long a watch must have lasted without a change or a bookmark to
// look suspicious. API servers send a bookmark every minute or so, but not to a
// watch whose resource version they have yet to reach.
const muteWatch = 2 * time.Minute

// wentBack asks the server for one item, to compare its resource version with the
// one that the next watch would wait for. Without an answer it is not known to have
// gone back: whatever is wrong, the next watch meets it too.
func (r *Reflector[T]) wentBack(ctx context.Context) bool {
	ctx, dog := startWatchdog(ctx, r.opts.Timing.StallTimeout, ErrStalled)
	defer dog.stop()
	opts := r.opts.selectors()
	opts.Limit = 1
	list, items := r.source.List(ctx, opts), 0
	for _, err := range list.Items {
		if err != nil {
			return false
		}
		if items++; items > 1 {
			break // of the second page
		}
	}
	return list.Meta != nil && older(list.Meta.ResourceVersion, r.from())
}

// older reports whether a is known to be an earlier resource version than b.
func older(a, b string) bool {
	order, err := object.CompareRV(a, b)
	return err == nil && order < 0
}

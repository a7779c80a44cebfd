package millrace

import (
	"context"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/scenario"
)

// fanout feeds events to handlers within the process.
func (k Stack) fanout(ctx context.Context, s *protocol.Session) (*protocol.Result, error) {
	feed := scenario.NewFeed(s)
	s.Until = feed.Until
	i := newLocal(k, feed)
	listeners, registrations := listen(s, i)
	stop, err := start(ctx, i)
	if err != nil {
		return nil, err
	}
	defer stop()
	for _, r := range registrations {
		if err := r.WaitForSync(ctx); err != nil {
			return nil, err
		}
	}
	if err := scenario.Fanout(s, feed.Go, listeners); err != nil {
		return nil, err
	}
	r := account(s, i, listeners)
	r.Metrics = s.Metrics
	return r, nil
}

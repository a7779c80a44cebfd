package torture

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/leaderelection"
	"github.com/millrace-dev/millrace/rest"
)

// lease returns options for an election with short terms, so that many are lost.
func lease(name, identity string) leaderelection.Options {
	return leaderelection.Options{
		Namespace: "default", Name: name, Identity: identity,
		LeaseDuration: 6 * time.Second, RenewDeadline: 4 * time.Second, RetryPeriod: 500 * time.Millisecond,
	}
}

// throne checks that there is one leader at a time.
type throne struct {
	w     *world
	name  string
	now   atomic.Int32
	terms atomic.Int64

	mu    sync.Mutex // guards token
	token int64      // the greatest so far
}

// sit is the work of a leader. It only waits until ctx is done.
func (t *throne) sit(ctx context.Context) error {
	if n := t.now.Add(1); n > 1 {
		t.w.complain("%d leaders at a time: %s", n, t.name)
	}
	defer t.now.Add(-1)
	t.terms.Add(1)
	token, ok := leaderelection.Token(ctx)
	t.mu.Lock()
	if !ok || token <= t.token {
		t.w.complain("%s: token %d (%t) after %d", t.name, token, ok, t.token)
	}
	t.token = token
	t.mu.Unlock()
	<-ctx.Done()
	return nil
}

// candidates compete for one lease.
type candidates struct {
	throne
	electors []*leaderelection.Elector
	clients  []*rest.Client // one for each candidate
	cancel   context.CancelFunc
	all      sync.WaitGroup
}

func newCandidates(w *world) *candidates {
	c := &candidates{throne: throne{w: w, name: "election of three"}}
	var ctx context.Context
	ctx, c.cancel = context.WithCancel(context.Background())
	for n := range 3 {
		client, err := rest.NewClient(w.byToken(), newScheme())
		require.NoError(w.t, err)
		e, err := leaderelection.New(client, lease("torture", fmt.Sprint("candidate-", n)))
		require.NoError(w.t, err)
		c.electors, c.clients = append(c.electors, e), append(c.clients, client)
		c.all.Go(func() {
			defer client.CloseIdleConnections()
			for ctx.Err() == nil {
				if err := e.Run(ctx, c.sit); err != nil && !errors.Is(err, leaderelection.ErrLost) {
					w.complain("candidate %d: %v", n, err)
				}
			}
		})
	}
	return c
}

func (c *candidates) stop() {
	c.cancel()
	c.all.Wait()
}

// differs returns the defects of the election while the cluster is healthy.
func (c *candidates) differs() string {
	for _, e := range c.electors {
		if s := e.Status(); s.Attempts > 0 {
			return fmt.Sprintf("%s: %d attempts: %v", s.Identity, s.Attempts, s.Failure)
		}
	}
	if n := c.now.Load(); n != 1 {
		return fmt.Sprintf("%d leaders", n)
	}
	return ""
}

// electorsSay requires that one of the candidates has reported the words since the beginning of the
// episode.
func (w *world) electorsSay(words string) {
	w.t.Helper()
	pattern := regexp.MustCompile(words)
	answer := until(saying, func() string {
		all := ""
		for _, e := range w.candidates.electors {
			s := e.Status()
			for _, f := range []*leaderelection.Failure{s.Failure, s.Lost} {
				if f != nil && f.When.After(w.began()) {
					all += "\n  " + s.Identity + ": " + f.Error()
				}
			}
		}
		if pattern.MatchString(all) {
			return ""
		}
		return "the electors say:" + all
	})
	if answer != "" {
		w.complain("want %q, but %s", words, answer)
	}
}

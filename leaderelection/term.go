package leaderelection

import (
	"context"
	"errors"
	"math"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/internal/lease"
)

// term is a lease that we hold.
type term struct {
	lease *coordinationv1.Lease // as stored on the server
	sent  time.Time             // when the request was sent
}

type tokenKey struct{}

// Token returns the fencing token for the current term, given the work's context. The token is the lease's
// number of transitions, so it increases with each term. Send it with each request that only the leader may
// make. The receiver should remember the greatest token it has seen and reject smaller ones. Token returns
// false if ctx is not the work's context.
func Token(ctx context.Context) (token int64, ok bool) {
	token, ok = ctx.Value(tokenKey{}).(int64)
	return token, ok
}

func withToken(ctx context.Context, token int64) context.Context {
	return context.WithValue(ctx, tokenKey{}, token)
}

// errTokens means that the token cannot be increased.
var errTokens = errors.New("its leaseTransitions are at the maximum, which no election reaches: delete the Lease to start over")

// nextToken returns a token greater than that of the existing Lease (0 if there is none) and than all
// tokens we have seen, since the Lease may have been deleted or overwritten. If that would overflow, the
// token is only greater than the existing one.
func (e *Elector) nextToken(now int64) (int32, error) {
	e.mu.Lock()
	greatest := e.greatest
	e.mu.Unlock()
	for _, last := range []int64{max(now, greatest), now} {
		if last < math.MaxInt32 {
			return int32(last + 1), nil
		}
	}
	return 0, errTokens
}

// taken returns the lease with the fields set that start our term, and the others unchanged.
func (e *Elector) taken(last *coordinationv1.Lease, token int32) *coordinationv1.Lease {
	next := last.DeepCopy()
	lease.Acquire(next, e.opts.Identity, e.opts.LeaseDuration)
	next.Spec.LeaseTransitions = &token
	return next
}

func (e *Elector) renewed(l *coordinationv1.Lease) { lease.Renew(l, e.opts.LeaseDuration) }

// released clears the holder. A Lease's duration must be positive even if the Lease is not held.
func released(l *coordinationv1.Lease) {
	lease.Renew(l, time.Second)
	l.Spec.HolderIdentity = new("")
}

// candidacy is a candidate's view of the lease.
type candidacy struct {
	lease.Sighting
	deleted bool                  // the last read found that the lease was deleted, at Since or before
	race    *coordinationv1.Lease // the lease as of the last conflict
}

// missing records that there is no Lease. Its holder may have renewed it until now without being seen, and if it
// was free when last seen, another candidate may have taken it since.
func (c *candidacy) missing(now time.Time) {
	switch {
	case c.Lease == nil:
		c.Lease = &coordinationv1.Lease{}
	case !c.deleted && (c.Lease.UID != "" || c.race != nil): // there was one
		c.deleted, c.Since = true, now
	}
}

// raced reports whether a conflict is the first one for this state of the lease. If there is a second one,
// no other candidate was faster; something is rejecting our writes.
func (c *candidacy) raced() bool {
	first := c.race == nil || c.race.ResourceVersion != c.Lease.ResourceVersion
	c.race = c.Lease
	return first
}

// free reports whether the lease may be taken, because it is not held or has not been renewed for the
// duration that its holder set.
func (c *candidacy) free(fallback time.Duration) bool {
	if c.deleted && lease.Holder(c.Lease) == "" { // it may have been taken unseen
		return time.Since(c.Since) >= fallback
	}
	return lease.Holder(c.Lease) == "" || time.Since(c.Since) >= lease.Lasts(c.Lease, fallback)
}

func (e *Elector) create(ctx context.Context, l *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	return e.leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: e.opts.Name, Labels: e.opts.Labels}, Spec: l.Spec})
}

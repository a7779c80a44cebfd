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

// term is a lease of ours.
type term struct {
	lease *coordinationv1.Lease // as the server has it
	sent  time.Time             // when we wrote it
}

type tokenKey struct{}

// Token returns the fencing token of the term in which the work runs: the
// lease's count of transitions. Later terms have greater ones. Send it with each
// request that only a leader may send, and let the receiver remember the greatest
// token and refuse smaller ones. It returns false if ctx is not that of the work.
func Token(ctx context.Context) (token int64, ok bool) {
	token, ok = ctx.Value(tokenKey{}).(int64)
	return token, ok
}

func withToken(ctx context.Context, token int64) context.Context {
	return context.WithValue(ctx, tokenKey{}, token)
}

// errTokens: there is no greater token.
var errTokens = errors.New("its leaseTransitions are the greatest that there can be: somebody wrote that; delete the Lease, and tokens start anew")

// nextToken is greater than that of the Lease that there is, 0 for none, and than all
// that we have ever seen, which somebody may have deleted or overwritten. Where there is
// no such number any more, it is greater than that of the Lease.
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

// taken returns the lease as it is at the beginning of a term of ours. It keeps
// everything else in it.
func (e *Elector) taken(last *coordinationv1.Lease, token int32) *coordinationv1.Lease {
	next := last.DeepCopy()
	lease.Acquire(next, e.opts.Identity, e.opts.LeaseDuration)
	next.Spec.LeaseTransitions = &token
	return next
}

func (e *Elector) renewed(l *coordinationv1.Lease) { lease.Renew(l, e.opts.LeaseDuration) }

// released makes our lease nobody's. The time for which it is held must be positive.
func released(l *coordinationv1.Lease) {
	lease.Renew(l, time.Second)
	l.Spec.HolderIdentity = new("")
}

// candidacy is the lease as a candidate sees it.
type candidacy struct {
	lease.Sighting
	race *coordinationv1.Lease // the one that could not be taken because of a conflict
}

// raced reports whether a conflict is the first over this state of the lease. Where it
// is not, no other candidate was faster: something refuses us.
func (c *candidacy) raced() bool {
	first := c.race == nil || c.race.ResourceVersion != c.Lease.ResourceVersion
	c.race = c.Lease
	return first
}

// free reports whether the lease may be taken: nobody holds it, or its holder
// did not renew it for as long as it said itself.
func (c *candidacy) free(fallback time.Duration) bool {
	return lease.Holder(c.Lease) == "" || time.Since(c.Since) >= lease.Lasts(c.Lease, fallback)
}

func (e *Elector) create(ctx context.Context, l *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	return e.leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: e.opts.Name, Labels: e.opts.Labels}, Spec: l.Spec})
}

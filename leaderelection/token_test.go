package leaderelection_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/millrace-dev/millrace/leaderelection"
)

// token leads once, and returns the token of that term; 0 if it did not lead.
func (r *rig) token(e *leaderelection.Elector) (token int64) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.ctx, time.Minute)
	defer cancel()
	require.NoError(r, e.Run(ctx, func(ctx context.Context) error {
		token, _ = leaderelection.Token(ctx)
		return nil
	}))
	return token
}

func TestTokensGrowForEveryObserver(t *testing.T) {
	inBubble(t, func(r *rig) {
		a, _ := r.elector(options{Identity: "a"})
		require.EqualValues(r, 1, r.token(a))
		require.NoError(r, r.srv.Delete(leases, key))
		require.EqualValues(r, 2, r.token(a), "the Lease was deleted")
		r.put(func(l *coordinationv1.Lease) { l.Spec.LeaseTransitions = nil })
		require.EqualValues(r, 3, r.token(a), "the token was erased")
		require.NoError(r, r.srv.Delete(leases, key))
		b, _ := r.elector(options{Identity: "b"})
		require.EqualValues(r, 1, r.token(b), "which has seen nothing")
		require.EqualValues(r, 4, r.token(a))
		require.EqualValues(r, 5, r.token(b))
	})
}

func TestATokenDoesNotOverflow(t *testing.T) {
	inBubble(t, func(r *rig) {
		e, _ := r.elector(options{Identity: "a"})
		require.EqualValues(r, 1, r.token(e))
		r.put(func(l *coordinationv1.Lease) { l.Spec.LeaseTransitions = new(int32(math.MaxInt32)) })
		require.Zero(r, r.token(e), "nobody leads with a token that is not greater")
		require.ErrorContains(r, e.Status().Failure, "delete the Lease")
		require.NoError(r, r.srv.Delete(leases, key))
		require.EqualValues(r, 1, r.token(e))
		require.EqualValues(r, 2, r.token(e))
	})
}

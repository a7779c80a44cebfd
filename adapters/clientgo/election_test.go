package clientgo_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	election "k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/millrace-dev/millrace/adapters/clientgo"
	"github.com/millrace-dev/millrace/leaderelection"
	"github.com/millrace-dev/millrace/object"
)

// replicas compete for one Lease, some with client-go's election and some with Millrace's, as
// during a migration in either direction.
type replicas struct {
	*rig
	mu    sync.Mutex
	works string   // the current leader
	terms []string // all leaders so far
}

// work is the work of a leader. An election must prevent two at a time.
func (r *replicas) work(ctx context.Context, who string) {
	r.mu.Lock()
	assert.Empty(r, r.works, "%s begins to work", who)
	r.works, r.terms = who, append(r.terms, who)
	r.mu.Unlock()
	<-ctx.Done()
	r.mu.Lock()
	r.works = ""
	r.mu.Unlock()
}

// old runs a client-go replica until ctx is done. If it crashes, it does not release the Lease.
func (r *replicas) old(ctx context.Context, who string, crashes bool) {
	lock := &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: "shop", Name: "janitor"}, Client: clientset(r.T, r.cfg).CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: who},
	}
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	e, err := election.NewLeaderElector(election.LeaderElectionConfig{
		Lock: lock, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		ReleaseOnCancel: !crashes,
		Callbacks: election.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { r.work(ctx, who); close(done) },
			OnStoppedLeading: func() {},
		},
	})
	if !assert.NoError(r, err) {
		return
	}
	e.Run(ctx)
	if e.IsLeader() || slices.Contains(r.worked(), who) {
		<-done
	}
}

// worked returns the leaders in order.
func (r *replicas) worked() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.terms)
}

// moved runs a Millrace replica until ctx is done.
func (r *replicas) moved(ctx context.Context, who string, crashes bool) {
	client, err := clientgo.FromConfig(r.cfg)
	if !assert.NoError(r, err) {
		return
	}
	defer client.CloseIdleConnections()
	e, err := leaderelection.New(client, leaderelection.Options{Namespace: "shop", Name: "janitor", Identity: who, ReleaseOnCancel: new(!crashes)})
	if !assert.NoError(r, err) {
		return
	}
	assert.NoError(r, e.Run(ctx, func(ctx context.Context) error { r.work(ctx, who); return nil }))
}

// Replicas of a program before and after its migration to Millrace compete for one Lease. One works
// at a time. In both directions, the next one takes over at once if the Lease was released, and
// after LeaseDuration if not. The number of transitions, which is the token, only grows.
func TestOldAndNewReplicasCompeteForOneLease(t *testing.T) {
	on(t, stock, func(rig *rig) {
		r := &replicas{rig: rig}
		lease := func() coordinationv1.LeaseSpec {
			o, err := r.srv.Get(coordinationv1.SchemeGroupVersion.WithResource("leases"), object.Key{Namespace: "shop", Name: "janitor"})
			require.NoError(r, err)
			return o.(*coordinationv1.Lease).Spec
		}
		next := func(n int) (who string, run func(context.Context, string, bool), crashes bool) {
			crashes = n/2%2 == 1
			if n%2 == 0 {
				return fmt.Sprintf("client-go %d", n), r.old, crashes
			}
			return fmt.Sprintf("millrace %d", n), r.moved, crashes
		}
		var leaves func()
		var token int32
		for n := range 12 {
			ctx, cancel := context.WithCancel(r.ctx)
			who, run, crashes := next(n)
			gone := make(chan struct{})
			r.runs.Go(func() { run(ctx, who, crashes); close(gone) })
			if n == 0 {
				settle(5 * time.Second)
			} else {
				settle(time.Minute) // the other one leads, and this one is a standby
				require.Len(r, r.worked(), n, "%s takes the lease of another that works", who)
				left := time.Now()
				leaves()
				_, _, crashed := next(n - 1)
				const between = 4400 * time.Millisecond // most time between attempts of client-go: RetryPeriod * (1 + JitterFactor)
				within := 5 * time.Second
				if crashed {
					settle(10 * time.Second)
					require.Len(r, r.worked(), n, "%s does not wait until the lease is over", who)
					within = between + 15*time.Second + between // it must have seen the last renewal
				}
				settle(within - time.Since(left))
			}
			require.Len(r, r.worked(), n+1, "nobody leads after the lease of %d", n-1)
			require.Equal(r, who, r.worked()[n])
			spec := lease()
			require.Equal(r, who, *spec.HolderIdentity)
			if n > 0 {
				require.Greater(r, *spec.LeaseTransitions, token)
			}
			token = *spec.LeaseTransitions
			leaves = func() { cancel(); <-gone; synctest.Wait() }
		}
		leaves()
	})
}

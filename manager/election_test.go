package manager_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/leaderelection"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/config"
)

func janitor() *leaderelection.Options { return &leaderelection.Options{Name: "janitor"} }

// holder returns the holder of the lease.
func (r *rig) holder(srv *apiservertest.Server) string {
	r.Helper()
	o, err := srv.Get(coordinationv1.SchemeGroupVersion.WithResource("leases"), object.Key{Namespace: "shop", Name: "janitor"})
	require.NoError(r, err)
	return *o.(*coordinationv1.Lease).Spec.HolderIdentity
}

// contender is a manager with a runnable that only the leader runs.
func (r *rig) contender(name string, stopping time.Duration) *run {
	r.Helper()
	m := r.manager(options{LeaderElection: &leaderelection.Options{Name: "janitor", Identity: name}, GracefulShutdownTimeout: -1})
	require.NoError(r, m.Add(&part{rig: r, name: name, stopping: stopping}))
	require.NoError(r, m.AddTo(manager.Others, &part{rig: r, name: name + "-other"}))
	return r.start(m)
}

// cr#2719: the lease was released while work was still running.
func TestTheLeaseOutlivesTheLedWork(t *testing.T) {
	inBubble(t, server{}, func(r *rig) {
		a := r.contender("a", 30*time.Second)
		settle(time.Second)
		require.ElementsMatch(r, []string{"+a-other", "+a"}, r.noted())
		b := r.contender("b", 0)
		settle(time.Minute)
		require.Equal(r, []string{"+b-other"}, r.noted(), "the standby runs what needs no leader")
		require.True(r, ready(b.Manager), "a standby is ready")

		a.stop()
		settle(29 * time.Second)
		require.Equal(r, "a", r.holder(r.srv))
		require.Empty(r, r.noted())
		settle(5 * time.Second)
		require.Equal(r, []string{"-a", "-a-other", "+b"}, r.noted(), "b begins after a has ended")
		require.NoError(r, a.end())
		require.NoError(r, b.end())
		require.Equal(r, "", r.holder(r.srv))
	})
}

func TestALostLeaseEndsTheProgram(t *testing.T) {
	inBubble(t, server{}, func(r *rig) {
		a := r.contender("a", time.Second)
		settle(time.Second)
		require.ElementsMatch(r, []string{"+a-other", "+a"}, r.noted())
		r.srv.Faults().Add(apiservertest.Fault{Resource: "leases", Do: []apiservertest.Action{apiservertest.Fail{Code: 500}}})
		settle(20 * time.Second)
		require.True(r, a.ended.Load())
		require.ErrorIs(r, a.err, leaderelection.ErrLost)
		require.Regexp(r, "^leader election: shop/janitor: the lease was lost: not renewed for 10s: [^\n]*$", a.err.Error())
		require.Equal(r, []string{"-a", "-a-other"}, r.noted())
	})
}

// Work that does not stop must not keep the program from ending.
func TestALostLeaseEndsTheProgramThoughTheWorkHangs(t *testing.T) {
	inBubble(t, server{}, func(r *rig) {
		m := r.manager(options{LeaderElection: janitor()})
		require.NoError(r, m.Add(&part{rig: r, name: "stuck", stopping: time.Hour}))
		run := r.start(m)
		settle(time.Second)
		fault := r.srv.Faults().Add(apiservertest.Fault{Resource: "leases", Do: []apiservertest.Action{apiservertest.Fail{Code: 500}}})
		settle(20 * time.Second)
		code, body := probe(m, "/healthz")
		require.Equal(r, 500, code)
		require.Contains(r, body, "the lease shop/janitor expired")
		r.srv.Faults().Remove(fault)
		settle(25 * time.Second)
		require.True(r, run.ended.Load())
		require.ErrorIs(r, run.err, leaderelection.ErrLost)
		require.ErrorIs(r, run.err, manager.ErrNotStopped)
		require.ErrorContains(r, run.err, "stuck")
		require.NotEmpty(r, r.holder(r.srv), "the lease is kept as long as the work goes on")
		settle(2 * time.Hour)
	})
}

func TestTheWorkHasTheFencingToken(t *testing.T) {
	inBubble(t, server{}, func(r *rig) {
		for want := int64(1); want <= 3; want++ {
			m := r.manager(options{LeaderElection: janitor()})
			require.NoError(r, m.Add(manager.RunnableFunc(func(ctx context.Context) error {
				token, ok := leaderelection.Token(ctx)
				require.True(r, ok)
				require.Equal(r, want, token)
				r.note("led")
				return nil
			})))
			run := r.start(m)
			settle(time.Second)
			require.NoError(r, run.end())
			require.Equal(r, []string{"led"}, r.noted())
		}
	})
}

func TestAStandbyIsWarm(t *testing.T) {
	inBubble(t, server{}, func(r *rig) {
		r.pod("a")
		leader := r.contender("leader", 0)
		settle(time.Second)
		r.noted()
		m := r.manager(options{LeaderElection: janitor()})
		pods := factory.Informer[*corev1.Pod](m.Factory())
		require.NoError(r, m.Add(&warmer{part{rig: r, name: "standby"}, pods.WaitForSync}))
		standby := r.start(m)
		settle(time.Minute)
		require.Equal(r, []string{"~standby"}, r.noted())
		require.Equal(r, 1, pods.Cache().Len())
		require.True(r, ready(m))
		select {
		case <-m.Elected():
			r.Error("elected beside the leader")
		default:
		}
		require.NoError(r, leader.end())
		require.Contains(r, r.noted(), "+standby")
		<-m.Elected()
		require.NoError(r, standby.end())
	})
}

// A process that has not warmed up lets others go first, but not forever.
func TestElectionWaitsForCachesForALimitedTime(t *testing.T) {
	inBubble(t, server{Authorize: apiservertest.Deny("", "secrets")}, func(r *rig) {
		m := r.manager(options{LeaderElection: janitor()})
		factory.Informer[*corev1.Secret](m.Factory())
		require.NoError(r, m.Add(&warmer{part{rig: r, name: "w"}, func(context.Context) error { return nil }}))
		run := r.start(m)
		settle(29 * time.Second)
		require.Equal(r, []string{"~w"}, r.noted())
		settle(2 * time.Second)
		require.Equal(r, []string{"+w"}, r.noted())
		require.NoError(r, run.end())
	})
}

func TestTheLeaseMayBeInAnotherCluster(t *testing.T) {
	inBubble(t, server{}, func(r *rig) {
		far := apiservertest.New(apiservertest.Options{})
		defer far.Close()
		endpoint, err := far.Pipe()
		require.NoError(r, err)
		var log bytes.Buffer
		m := r.manager(options{
			Logger:               slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
			LeaderElection:       janitor(),
			LeaderElectionConfig: &config.Config{Host: endpoint.URL, Dial: endpoint.DialContext, Namespace: "shop"},
		})
		run := r.start(m)
		settle(time.Second)
		require.NotEmpty(r, r.holder(far))
		require.True(r, m.Report().Election.Leading)
		require.NoError(r, run.end())

		// It uses one of the manager's own clients.
		require.Contains(r, log.String(), "msg=request verb=create path=/apis/coordination.k8s.io")
		counted, err := testutil.GatherAndCount(m.Metrics(), "rest_client_requests_total")
		require.NoError(r, err)
		require.Positive(r, counted)
	})
}

// counted is a connection that is counted while it is open.
type counted struct {
	net.Conn
	open *atomic.Int64
	once sync.Once
}

func (c *counted) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}

// A manager that has ended has no open connections, not even an idle one of the election.
func TestNoConnectionIsLeftOfAManager(t *testing.T) {
	inBubble(t, server{}, func(r *rig) {
		var open atomic.Int64
		dial := r.cfg.Dial
		r.cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			open.Add(1)
			return &counted{Conn: conn, open: &open}, nil
		}
		m := r.manager(options{LeaderElection: janitor()})
		factory.Informer[*corev1.Pod](m.Factory())
		running := r.start(m)
		settle(time.Minute)
		require.Positive(r, open.Load())
		running.stop()
		settle(time.Second)
		require.True(r, running.ended.Load())
		require.Zero(r, open.Load())
	})
}

// If the lease is lost while the program is stopping, another process may have led at the same time. This is not a
// clean stop.
func TestALeaseLostDuringTheStopIsReported(t *testing.T) {
	inBubble(t, server{}, func(r *rig) {
		a := r.contender("a", time.Minute)
		settle(time.Second)
		a.stop()
		settle(time.Second)
		r.srv.Faults().Add(apiservertest.Fault{Resource: "leases", Do: []apiservertest.Action{apiservertest.Fail{Code: 500}}})
		settle(2 * time.Minute)
		require.True(r, a.ended.Load())
		require.Equal(r, []string{"-a", "-a-other"}, r.noted()[2:])
		require.ErrorIs(r, a.err, leaderelection.ErrLost)
	})
}

package leaderelection_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/leaderelection"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
)

type options = leaderelection.Options

func TestOneOfTwoLeadsAndReleasesTheLeaseWhenItStops(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.join(options{Identity: "a", Labels: map[string]string{"app": "janitor"}})
		settle(0)
		b := r.join(options{Identity: "b"})
		settle(time.Minute)
		require.True(r, a.leads())
		require.False(r, b.leads())
		require.Equal(r, "a", b.Status().Holder)
		require.Equal(r, "janitor", r.lease().Labels["app"])

		since := time.Now()
		a.stop()
		settle(0)
		require.False(r, a.leads())
		require.Equal(r, "", *r.lease().Spec.HolderIdentity, "released")
		settle(2400 * time.Millisecond) // a retry period with jitter
		require.True(r, b.leads())
		require.Equal(r, []int64{1}, a.tokens())
		require.Equal(r, []int64{2}, b.tokens(), "a term has a greater token than the one before")
		require.WithinDuration(r, since, b.Status().Since, 2400*time.Millisecond)
		require.Equal(r, "b", *r.lease().Spec.HolderIdentity)
		err, ended := a.end()
		require.True(r, ended)
		require.NoError(r, err)
	})
}

// cr#2719: the lease was given up while work still ran.
func TestTheLeaseOutlivesWorkThatIsSlowToStop(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.joinSlow(options{Identity: "a"}, time.Minute)
		settle(time.Second)
		b := r.join(options{Identity: "b"})
		settle(time.Second)
		a.stop()
		settle(59 * time.Second)
		require.True(r, a.leads(), "the work has not returned")
		require.False(r, b.leads())
		require.Equal(r, "a", *r.lease().Spec.HolderIdentity)
		require.NoError(r, a.Check(), "it renews")
		settle(4 * time.Second)
		require.False(r, a.leads())
		require.True(r, b.leads())
	})
}

func TestKilledLeaderIsReplacedAfterItsLeaseExpired(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.join(options{Identity: "a"})
		settle(time.Second)
		b := r.join(options{Identity: "b"})
		settle(10 * time.Second)
		a.network.cut.Store(true) // as if it were gone: no release
		a.stop()
		settle(12 * time.Second)
		require.False(r, b.leads())
		settle(7500 * time.Millisecond) // 15 s after b saw the last renewal, and a retry period
		require.True(r, b.leads())
		require.Equal(r, []int64{2}, b.tokens())
	})
}

func TestALeaderWithoutNetworkStopsBeforeAnotherBegins(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.join(options{Identity: "a"})
		settle(time.Second)
		b := r.join(options{Identity: "b"})
		settle(10 * time.Second)
		renewed := a.Status().Renewed
		a.network.cut.Store(true)
		settle(time.Until(renewed.Add(10*time.Second - time.Millisecond)))
		require.True(r, a.leads())
		settle(time.Millisecond)
		require.False(r, a.leads(), "exactly at the deadline")
		require.False(r, b.leads())
		settle(4 * time.Second) // the work is at an end, and still nobody else leads
		require.False(r, b.leads())
		settle(6 * time.Second)
		require.True(r, b.leads())
		err, ended := a.end()
		require.True(r, ended)
		require.ErrorIs(r, err, leaderelection.ErrLost)
		require.ErrorContains(r, err, "shop/janitor: the lease was lost: not renewed for 10s")
	})
}

func TestALeaderWhoseNetworkReturnsInTimeStaysLeader(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.join(options{Identity: "a"})
		b := r.join(options{Identity: "b"})
		settle(10 * time.Second)
		if b.leads() {
			a, b = b, a
		}
		for range 10 {
			a.network.refuse.Store(true)
			settle(6100 * time.Millisecond)
			require.Positive(r, a.Status().Attempts)
			a.network.refuse.Store(false)
			settle(4 * time.Second)
			require.Zero(r, a.Status().Attempts)
			a.network.cut.Store(true)
			settle(3100 * time.Millisecond)
			a.network.cut.Store(false)
			settle(7 * time.Second)
			require.Zero(r, a.Status().Attempts)
		}
		require.Len(r, a.tokens(), 1)
		require.Empty(r, b.tokens())
	})
}

// The lease outlives the work also where it was lost for a time only.
func TestALostLeaseIsRenewedWhileTheWorkStops(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.joinSlow(options{Identity: "a"}, time.Minute)
		settle(time.Second)
		b := r.join(options{Identity: "b"})
		settle(1500 * time.Millisecond)
		a.network.refuse.Store(true)
		settle(11 * time.Second)
		err, ended := a.end()
		require.False(r, ended, err)
		a.network.refuse.Store(false)
		settle(40 * time.Second)
		require.True(r, a.leads(), "still stopping")
		require.False(r, b.leads())
		require.Equal(r, "a", *r.lease().Spec.HolderIdentity)
		settle(25 * time.Second)
		require.True(r, b.leads())
		err, _ = a.end()
		require.ErrorIs(r, err, leaderelection.ErrLost)
	})
}

func TestCheckFailsWhenTheWorkOutlivesTheLease(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.joinSlow(options{Identity: "a"}, time.Hour)
		settle(time.Second)
		a.network.cut.Store(true)
		settle(14 * time.Second)
		require.NoError(r, a.Check())
		settle(2 * time.Second)
		require.ErrorContains(r, a.Check(), "the lease shop/janitor expired")
		settle(time.Hour)
		require.NoError(r, a.Check())
	})
}

// It may be found only later that another candidate has the lease that was lost.
func TestCheckKeepsFailingWhenAnotherProcessTakesTheLostLease(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.joinSlow(options{Identity: "a"}, time.Hour)
		settle(time.Second)
		b := r.join(options{Identity: "b"})
		settle(time.Second)
		a.network.cut.Store(true)
		settle(30 * time.Second)
		require.True(r, b.leads())
		require.ErrorContains(r, a.Check(), "expired")
		a.network.cut.Store(false)
		for range 30 {
			settle(time.Second)
			require.Error(r, a.Check())
		}
		require.ErrorContains(r, a.Check(), `taken over by "b"`)
	})
}

// Times in the lease are for people: a clock that is wrong by hours neither
// takes a lease that is alive nor keeps one that is dead.
func TestClocksAreNotCompared(t *testing.T) {
	for _, skew := range []time.Duration{-5 * time.Hour, 5 * time.Hour} {
		t.Run(skew.String(), func(t *testing.T) {
			inBubble(t, func(r *rig) {
				_, err := r.srv.Create(&coordinationv1.Lease{
					ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
					Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("elsewhere"), LeaseDurationSeconds: new(int32(15)), LeaseTransitions: new(int32(7))},
				})
				require.NoError(r, err)
				renew := func() {
					r.put(func(l *coordinationv1.Lease) { l.Spec.RenewTime = new(metav1.NewMicroTime(time.Now().Add(skew))) })
				}
				renew()
				a := r.join(options{Identity: "a"})
				for range 30 {
					settle(2 * time.Second)
					renew()
				}
				require.False(r, a.leads(), "the holder is alive")
				settle(14 * time.Second)
				require.False(r, a.leads())
				settle(6 * time.Second)
				require.Equal(r, []int64{8}, a.tokens())
			})
		})
	}
}

func TestHoldersLeaseDurationCounts(t *testing.T) {
	inBubble(t, func(r *rig) {
		_, err := r.srv.Create(&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("elsewhere"), LeaseDurationSeconds: new(int32(120))},
		})
		require.NoError(r, err)
		a := r.join(options{})
		settle(119 * time.Second)
		require.False(r, a.leads())
		settle(4 * time.Second)
		require.True(r, a.leads())
	})
}

// Changes of the Lease's labels neither keep a dead holder's lease alive nor disturb a live holder.
func TestLabelChangesDoNotCountAsARenewal(t *testing.T) {
	inBubble(t, func(r *rig) {
		_, err := r.srv.Create(&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("dead")},
		})
		require.NoError(r, err)
		a := r.join(options{Identity: "a"})
		for n := range 30 {
			settle(time.Second)
			r.put(func(l *coordinationv1.Lease) { l.Labels = map[string]string{"n": fmt.Sprint(n)} })
		}
		settle(5 * time.Second)
		require.True(r, a.leads())
		require.Equal(r, "29", r.lease().Labels["n"], "what others wrote is kept")
		require.Equal(r, "a", *r.lease().Spec.HolderIdentity)
		require.Len(r, a.tokens(), 1)
	})
}

// Others would take the lease while its holder works.
func TestEditedDurationIsRestored(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.join(options{Identity: "a"})
		settle(time.Second)
		for _, said := range []*int32{new(int32(1)), nil} {
			r.put(func(l *coordinationv1.Lease) { l.Spec.LeaseDurationSeconds = said })
			settle(3 * time.Second)
			require.EqualValues(r, 15, *r.lease().Spec.LeaseDurationSeconds)
		}
		b := r.join(options{Identity: "b", LeaseDuration: 5 * time.Second, RenewDeadline: 3 * time.Second, RetryPeriod: time.Second})
		settle(time.Second)
		renewed := a.Status().Renewed
		a.network.cut.Store(true)
		settle(time.Until(renewed.Add(14 * time.Second)))
		require.False(r, b.leads())
		settle(4 * time.Second)
		require.True(r, b.leads())
	})
}

// A Lease that still names us, and is of another term, was edited, or another process has our identity.
func TestEditedLeaseIsNotTakenOver(t *testing.T) {
	for what, edit := range map[string]func(*coordinationv1.LeaseSpec){
		"acquireTime":      func(s *coordinationv1.LeaseSpec) { s.AcquireTime = new(metav1.NewMicroTime(time.Now().Add(time.Hour))) },
		"leaseTransitions": func(s *coordinationv1.LeaseSpec) { s.LeaseTransitions = new(int32(77)) },
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				a := r.join(options{Identity: "a"})
				settle(time.Second)
				r.put(func(l *coordinationv1.Lease) { edit(&l.Spec) })
				settle(2 * time.Second)
				err, _ := a.end()
				require.ErrorIs(r, err, leaderelection.ErrLost)
				require.ErrorContains(r, err, `taken over by another process with our identity, "a", or edited by hand, with token`)
			})
		})
	}
}

func TestLeaseTakenByAnotherIsLostAtOnce(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.join(options{Identity: "a"})
		settle(time.Second)
		r.put(func(l *coordinationv1.Lease) {
			l.Spec.HolderIdentity, l.Spec.LeaseTransitions = new("thief"), new(int32(9))
		})
		settle(2 * time.Second)
		require.False(r, a.leads())
		err, _ := a.end()
		require.ErrorIs(r, err, leaderelection.ErrLost)
		require.Equal(r, `leader election: shop/janitor: the lease was lost: taken over by "thief" with token 9`, err.Error())
		require.Equal(r, "thief", *r.lease().Spec.HolderIdentity, "not released: it is not ours")
	})
}

func TestALeaseWhoseHolderWasErasedIsLost(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.join(options{Identity: "a"})
		settle(time.Second)
		r.put(func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = nil })
		settle(2 * time.Second)
		err, _ := a.end()
		require.EqualError(r, err, "leader election: shop/janitor: the lease was lost: taken over by an unknown process (its holder was erased) with token 1")
	})
}

func TestTwoProcessesOfOneNameDoNotLeadTogether(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.joinSlow(options{Identity: "twin"}, time.Minute)
		settle(time.Second)
		b := r.join(options{Identity: "twin"})
		settle(10 * time.Minute)
		require.True(r, a.leads())
		require.False(r, b.leads())
		a.network.cut.Store(true)
		settle(20 * time.Second)
		require.True(r, b.leads())
		require.Error(r, a.Check(), "its work has not stopped in time")
		a.network.cut.Store(false)
		settle(2 * time.Minute)
		require.False(r, a.leads())
		require.True(r, b.leads())
		require.Equal(r, "twin", *r.lease().Spec.HolderIdentity, "it was not a's to release")
		require.EqualValues(r, 2, *r.lease().Spec.LeaseTransitions)
		require.Zero(r, b.Status().Attempts)
	})
}

// A leader whose Lease is deleted stops, because another candidate may have held the Lease in between.
func TestADeletedLeaseIsLost(t *testing.T) {
	inBubble(t, func(r *rig) {
		var log bytes.Buffer
		a := r.join(options{Identity: "a", Labels: map[string]string{"app": "janitor"}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		settle(time.Minute)
		require.Equal(r, "janitor", r.lease().Labels["app"])
		settle(time.Until(a.Status().Renewed.Add(50 * time.Millisecond)))
		require.NoError(r, r.srv.Delete(leases, key))
		b := r.join(options{Identity: "b"})
		settle(100 * time.Millisecond)
		require.True(r, b.leads())
		require.NoError(r, r.srv.Delete(leases, key)) // before a can see that b holds it
		settle(5 * time.Second)
		for _, c := range []*candidate{a, b} {
			err, ended := c.end()
			require.True(r, ended)
			require.ErrorIs(r, err, leaderelection.ErrLost)
			require.ErrorContains(r, err, "deleted by another client")
		}
		require.NotContains(r, log.String(), "released")
		_, err := r.srv.Get(leases, key)
		require.Error(r, err)
	})
}

// If something deletes the Lease again and again, there is at most one leader at a time.
func TestALeaseThatIsAlwaysDeletedMakesAtMostOneLeader(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.join(options{Identity: "a"})
		settle(time.Second)
		b := r.join(options{Identity: "b"})
		settle(time.Second)
		for range 6000 {
			_ = r.srv.Delete(leases, key)
			settle(5 * time.Millisecond)
			require.False(r, a.leads() && b.leads(), "two lead")
		}
		require.NotEmpty(r, b.tokens())
	})
}

// An Elector that runs again remembers the holder that it saw.
func TestRunAgainDoesNotRecreateADeletedLease(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.join(options{Identity: "a"})
		settle(time.Second)
		b := r.join(options{Identity: "b"})
		settle(time.Minute)
		b.stop()
		settle(time.Until(a.Status().Renewed.Add(time.Millisecond)))
		require.NoError(r, r.srv.Delete(leases, key))
		b.start(r.ctx)
		for range 300 {
			settle(10 * time.Millisecond)
			require.False(r, a.leads() && b.leads(), "two lead")
		}
		settle(20 * time.Second)
		require.Equal(r, []int64{2}, b.tokens())
	})
}

// A leader whose lease has expired does not create the Lease again either.
func TestALeaseThatRanOutIsNotCreatedAgain(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.joinSlow(options{Identity: "a"}, time.Minute)
		settle(time.Second)
		b := r.join(options{Identity: "b"})
		settle(time.Second)
		a.network.cut.Store(true)
		settle(30 * time.Second)
		require.Equal(r, []int64{2}, b.tokens())
		b.network.cut.Store(true) // so that it is a that looks first
		require.NoError(r, r.srv.Delete(leases, key))
		a.network.cut.Store(false)
		settle(4 * time.Second)
		require.ErrorContains(r, a.Status().Lost, "deleted by another client")
		_, err := r.srv.Get(leases, key)
		require.Error(r, err)
	})
}

// A candidate that has seen the lease held waits for its holder, Lease or not.
func TestStandbyDoesNotRecreateADeletedLease(t *testing.T) {
	for n := range 7 {
		inBubble(t, func(r *rig) {
			a := r.join(options{Identity: "a"})
			settle(time.Minute)
			b := r.join(options{Identity: "b"})
			settle(20*time.Second + time.Duration(n)*300*time.Millisecond)
			require.Equal(r, "a", b.Status().Holder)
			require.NoError(r, r.srv.Delete(leases, key))
			settle(12 * time.Second)
			require.False(r, a.leads())
			require.False(r, b.leads())
			settle(8 * time.Second)
			require.Equal(r, []int64{2}, b.tokens())
		})
	}
}

// A candidate that was cut off for longer than the lease lasts has missed the holder's latest renewals. It waits,
// too.
func TestStandbyThatWasCutOffDoesNotRecreateADeletedLease(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.joinSlow(options{Identity: "a"}, 0)
		settle(time.Minute)
		b := r.join(options{Identity: "b"})
		settle(20 * time.Second)
		require.Equal(r, "a", b.Status().Holder)
		b.network.refuse.Store(true)
		settle(30 * time.Second)
		require.True(r, a.leads())
		settle(time.Until(a.Status().Renewed.Add(2*time.Second + time.Millisecond)))
		require.NoError(r, r.srv.Delete(leases, key))
		b.network.refuse.Store(false)
		for range 200 {
			settle(10 * time.Millisecond)
			require.False(r, a.leads() && b.leads())
		}
	})
}

// A candidate that starts without a Lease takes it, and the leader notices, even if both have the same
// name and token.
func TestADeletedLeaseMakesAtMostOneLeader(t *testing.T) {
	for _, names := range [][3]string{{"a", "b", `"b"`}, {"same", "same", `another process with our identity, "same", or edited by hand,`}} {
		inBubble(t, func(r *rig) {
			a := r.joinSlow(options{Identity: names[0]}, time.Hour)
			settle(time.Minute + time.Millisecond)
			require.NoError(r, r.srv.Delete(leases, key))
			b := r.join(options{Identity: names[1]})
			settle(time.Millisecond)
			require.True(r, b.leads())
			require.NoError(r, a.Check(), "it cannot know yet")
			settle(2100 * time.Millisecond)
			require.Error(r, a.Status().Lost)
			require.EqualError(r, a.Check(), `leader election: the lease shop/janitor was taken over by `+names[2]+` with token 1 0s ago and the work has not stopped`)
			settle(2 * time.Hour)
			require.True(r, b.leads())
			require.NoError(r, b.Check())
			err, ended := a.end()
			require.True(r, ended)
			require.ErrorIs(r, err, leaderelection.ErrLost)
			require.NoError(r, a.Check())
			require.Nil(r, a.Status().Lost)
		})
	}
}

// Requests may be slow for good reasons, such as an exec plugin that fetches a credential. The lease
// is lost at the deadline, not before.
func TestRenewalMayTakeUntilTheDeadline(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.join(options{Identity: "a"})
		settle(time.Second)
		for range 10 {
			r.srv.Faults().Add(apiservertest.Fault{Verb: "update", Resource: "leases", Count: 3, Do: []apiservertest.Action{apiservertest.Delay{For: 7 * time.Second}}})
			settle(20 * time.Second)
			r.srv.Faults().Clear()
			settle(10 * time.Second)
		}
		r.srv.Faults().Add(apiservertest.Fault{Verb: "update", Resource: "leases", Do: []apiservertest.Action{apiservertest.Delay{For: 4 * time.Second}}})
		settle(10 * time.Minute)
		require.True(r, a.leads())
		require.Len(r, a.tokens(), 1)
		require.Zero(r, a.Status().Attempts)
		r.srv.Faults().Clear()
		r.srv.Faults().Add(apiservertest.Fault{Verb: "update", Resource: "leases", Do: []apiservertest.Action{apiservertest.Delay{For: 11 * time.Second}}})
		settle(20 * time.Second)
		require.False(r, a.leads())
	})
}

// If the response to the first write takes long, the first renewal does not wait for a whole RetryPeriod.
func TestASlowAcquisitionIsRenewedAtOnce(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.srv.Faults().Add(apiservertest.Fault{Verb: "create", Resource: "leases", Count: 1, Do: []apiservertest.Action{apiservertest.Delay{For: 8500 * time.Millisecond}}})
		a := r.join(options{Identity: "a"})
		settle(time.Minute)
		require.True(r, a.leads())
		require.Len(r, a.tokens(), 1)
	})
}

// A connection that is dead takes a third of the time.
func TestADeadConnectionDoesNotLoseTheLease(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.join(options{Identity: "a"})
		settle(time.Second)
		for range 20 {
			a.network.lose.Store(true) // the next request
			settle(10 * time.Second)
			require.False(r, a.network.lose.Load())
			require.True(r, a.leads())
		}
		require.Len(r, a.tokens(), 1)
	})
}

// The goroutines of renewals must not end the process.
func TestPanickingTransportIsAFailure(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.join(options{Identity: "a"})
		settle(time.Second)
		a.network.panics.Store(true)
		settle(5 * time.Second)
		require.True(r, a.leads())
		require.ErrorContains(r, a.Status().Failure, "Config.WrapTransport panicked: boom")
		a.network.panics.Store(false)
		settle(5 * time.Second)
		require.Zero(r, a.Status().Attempts)
	})
}

func TestRefusalsAreRetriedAndVisible(t *testing.T) {
	for name, action := range map[string]apiservertest.Action{
		"forbidden":   apiservertest.Fail{Code: http.StatusForbidden},
		"overloaded":  apiservertest.Fail{Code: http.StatusTooManyRequests, RetryAfter: "1"},
		"unavailable": apiservertest.Fail{Code: http.StatusInternalServerError},
		"conflict":    apiservertest.Fail{Code: http.StatusConflict},
		"slow":        apiservertest.Delay{For: time.Minute},
		"cut":         apiservertest.Cut{},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				a := r.join(options{Identity: "a"})
				settle(time.Second)
				fault := r.srv.Faults().Add(apiservertest.Fault{Resource: "leases", Do: []apiservertest.Action{action}})
				settle(6 * time.Second)
				require.True(r, a.leads(), "the deadline has not passed")
				require.Error(r, a.Status().Failure)
				r.srv.Faults().Remove(fault)
				settle(time.Minute)
				require.True(r, a.leads())
				require.Zero(r, a.Status().Attempts)
				require.Len(r, a.tokens(), 1)

				r.srv.Faults().Add(apiservertest.Fault{Resource: "leases", Do: []apiservertest.Action{action}})
				settle(13 * time.Second)
				require.False(r, a.leads())
				b := r.join(options{Identity: "b"})
				settle(time.Minute)
				require.False(r, b.leads(), "who cannot write cannot lead")
				require.Positive(r, b.Status().Attempts)
				r.srv.Faults().Clear()
				settle(20 * time.Second)
				require.True(r, b.leads())
			})
		})
	}
}

func TestLeaseIsReleasedWhenTheWorkReturns(t *testing.T) {
	inBubble(t, func(r *rig) {
		e, _ := r.elector(options{Identity: "a"})
		boom := errors.New("boom")
		require.ErrorIs(r, e.Run(r.ctx, func(context.Context) error { return boom }), boom)
		require.Equal(r, "", *r.lease().Spec.HolderIdentity)
		require.NoError(r, e.Run(r.ctx, func(ctx context.Context) error {
			token, _ := leaderelection.Token(ctx)
			require.EqualValues(r, 2, token, "a new term, though the holder is the same")
			require.ErrorIs(r, e.Run(ctx, func(context.Context) error { return nil }), leaderelection.ErrRunning)
			return nil
		}))
	})
}

func TestLeaseIsKeptIfRequested(t *testing.T) {
	inBubble(t, func(r *rig) {
		e, _ := r.elector(options{Identity: "a", ReleaseOnCancel: new(false)})
		require.NoError(r, e.Run(r.ctx, func(context.Context) error { return nil }))
		require.Equal(r, "a", *r.lease().Spec.HolderIdentity)
	})
}

func TestAPanicOfTheWorkKeepsTheLease(t *testing.T) {
	inBubble(t, func(r *rig) {
		e, _ := r.elector(options{Identity: "a"})
		require.Panics(r, func() { e.Run(r.ctx, func(context.Context) error { panic("boom") }) })
		require.False(r, e.Status().Leading)
		require.Equal(r, "a", *r.lease().Spec.HolderIdentity, "nobody knows what still runs")
	})
}

func TestRunNeedsAFunction(t *testing.T) {
	inBubble(t, func(r *rig) {
		e, _ := r.elector(options{Identity: "a"})
		defer func() { require.Contains(r, recover(), "elector_test.go:") }()
		_ = e.Run(r.ctx, nil)
	})
}

func TestBadOptionsSayWhatToChange(t *testing.T) {
	_, err := leaderelection.New(nil, options{Namespace: "shop", Name: "janitor"})
	require.EqualError(t, err, "leader election: the client is nil")
	scheme := runtime.NewScheme()
	require.NoError(t, coordinationv1.AddToScheme(scheme))
	client, err := rest.NewClient(&config.Config{Host: "http://127.0.0.1:1"}, scheme)
	require.NoError(t, err)
	for want, opts := range map[string]options{
		"no Name: set it":     {Namespace: "shop"},
		"raise LeaseDuration": {Namespace: "shop", Name: "janitor", LeaseDuration: 10 * time.Second},
		"lower RetryPeriod":   {Namespace: "shop", Name: "janitor", RetryPeriod: 9 * time.Second},
		"LeaseDuration is 1193046h28m16s: want 1ms to 596523h14m7s": {Namespace: "shop", Name: "janitor", LeaseDuration: 1 << 32 * time.Second},
		`"Jani_tor" cannot be the Name of a Lease: `:                {Namespace: "shop", Name: "Jani_tor"},
	} {
		_, err := leaderelection.New(client, opts)
		require.ErrorContains(t, err, want)
	}
}

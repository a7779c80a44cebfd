package lease

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAnEmptyLease(t *testing.T) {
	l := &coordinationv1.Lease{}
	require.Empty(t, Holder(l))
	require.Zero(t, Token(l))
	require.Equal(t, time.Minute, Lasts(l, time.Minute))
	l.Spec.LeaseDurationSeconds = new(int32(0))
	require.Equal(t, time.Minute, Lasts(l, time.Minute))
}

func TestATermEndsWithItsHolder(t *testing.T) {
	a := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{LeaseTransitions: new(int32(7))}}
	Acquire(a, "a", 15*time.Second)
	require.Equal(t, "a", Holder(a))
	require.EqualValues(t, 7, Token(a))
	require.Equal(t, 15*time.Second, Lasts(a, 0))

	renewed := a.DeepCopy()
	time.Sleep(time.Millisecond)
	Renew(renewed, time.Minute)
	require.Equal(t, time.Minute, Lasts(renewed, 0))
	require.True(t, SameTerm(a, renewed))
	require.False(t, a.Spec.RenewTime.Equal(renewed.Spec.RenewTime))

	again := a.DeepCopy()
	Acquire(again, "a", 15*time.Second)
	require.False(t, SameTerm(a, again), "another process of the same identity")
	other := a.DeepCopy()
	other.Spec.HolderIdentity = new("b")
	require.False(t, SameTerm(a, other))
}

func TestOnlySpecChangesCountAsARenewal(t *testing.T) {
	start := time.Now()
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	l := &coordinationv1.Lease{}
	Acquire(l, "a", 15*time.Second)
	l.Spec.RenewTime = new(metav1.NewMicroTime(start.Add(-5 * time.Hour))) // the holder's clock is wrong
	var s Sighting
	require.True(t, s.See(l, at(0)))
	labelled := l.DeepCopy()
	labelled.Labels = map[string]string{"a": "b"}
	require.False(t, s.See(labelled, at(10)))
	require.Equal(t, at(0), s.Since)
	renewed := labelled.DeepCopy()
	Renew(renewed, 15*time.Second)
	require.True(t, s.See(renewed, at(20)))
	require.Equal(t, at(20), s.Since)
	require.Equal(t, renewed, s.Lease)
}

func TestSleepEndsEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		start := time.Now()
		require.True(t, Sleep(ctx, time.Minute, nil))
		require.Equal(t, time.Minute, time.Since(start))
		wake := make(chan struct{})
		time.AfterFunc(time.Second, func() { close(wake) })
		require.True(t, Sleep(ctx, time.Minute, wake))
		require.Equal(t, time.Minute+time.Second, time.Since(start))
		time.AfterFunc(time.Second, cancel)
		require.False(t, Sleep(ctx, time.Minute, nil))
		require.False(t, Sleep(ctx, 0, wake))
		require.Equal(t, time.Minute+2*time.Second, time.Since(start))
	})
}

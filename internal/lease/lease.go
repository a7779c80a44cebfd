package lease

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Holder returns the holder's identity, or "" if there is none.
func Holder(l *coordinationv1.Lease) string {
	if l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

// Token returns the number of the current term, that is, the Lease's transition count, or 0 if it is not
// set.
func Token(l *coordinationv1.Lease) int64 {
	if l.Spec.LeaseTransitions == nil {
		return 0
	}
	return int64(*l.Spec.LeaseTransitions)
}

// Lasts returns how long the holder may go without renewing the Lease, or the argument otherwise if that is
// not set.
func Lasts(l *coordinationv1.Lease, otherwise time.Duration) time.Duration {
	if said := l.Spec.LeaseDurationSeconds; said != nil && *said > 0 {
		return time.Duration(*said) * time.Second
	}
	return otherwise
}

// Acquire starts a term for identity, to be renewed within the duration lasts. It leaves the other fields of
// l unchanged.
func Acquire(l *coordinationv1.Lease, identity string, lasts time.Duration) {
	Renew(l, lasts)
	now := metav1.NewMicroTime(time.Now().Truncate(time.Microsecond)) // with the server's precision
	l.Spec.HolderIdentity, l.Spec.AcquireTime = &identity, &now
}

// Renew sets the renewal time and the duration. Someone else may have shortened the duration, which would
// make candidates take the Lease too early. The renewal time changes even if the clock has not advanced, so it
// distinguishes the holder's writes from those of other clients.
func Renew(l *coordinationv1.Lease, lasts time.Duration) {
	now := time.Now().Truncate(time.Microsecond) // the server's precision
	if last := l.Spec.RenewTime; last != nil && now.Sub(last.Time).Abs() < time.Millisecond {
		now = last.Add(time.Microsecond)
	}
	l.Spec.RenewTime = new(metav1.NewMicroTime(now))
	l.Spec.LeaseDurationSeconds = new(int32(lasts / time.Second))
}

// SameTerm reports whether a and b belong to the same term, with the same holder and start time. Comparing
// identities is not enough, since two processes may have been configured with the same one.
func SameTerm(a, b *coordinationv1.Lease) bool {
	return Holder(a) == Holder(b) && a.Spec.AcquireTime.Equal(b.Spec.AcquireTime)
}

// Sleep waits for d, or until it receives from wake. It returns false if ctx is done first.
func Sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// Sighting is a Lease, with the time of its last observed change by our own clock.
type Sighting struct {
	Lease *coordinationv1.Lease // nil if it has not been seen
	Since time.Time
}

// See records the current state of the Lease, and reports whether its holder has written it since. Only
// changes to the spec count, because others may change labels.
func (s *Sighting) See(l *coordinationv1.Lease, now time.Time) (alive bool) {
	if alive = s.Lease == nil || !equality.Semantic.DeepEqual(s.Lease.Spec, l.Spec); alive {
		s.Since = now
	}
	s.Lease = l
	return alive
}

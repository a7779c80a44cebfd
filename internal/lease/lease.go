package lease

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Holder returns the identity of the holder, empty if there is none.
func Holder(l *coordinationv1.Lease) string {
	if l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

// Token returns the number of the term, which is the count of transitions; 0 if the Lease
// does not say.
func Token(l *coordinationv1.Lease) int64 {
	if l.Spec.LeaseTransitions == nil {
		return 0
	}
	return int64(*l.Spec.LeaseTransitions)
}

// Lasts returns how long the holder may be silent, or otherwise if the Lease does not say.
func Lasts(l *coordinationv1.Lease, otherwise time.Duration) time.Duration {
	if said := l.Spec.LeaseDurationSeconds; said != nil && *said > 0 {
		return time.Duration(*said) * time.Second
	}
	return otherwise
}

// Acquire begins a term of identity in l, whose holder may be silent for lasts. The other
// fields stay as they are.
func Acquire(l *coordinationv1.Lease, identity string, lasts time.Duration) {
	Renew(l, lasts)
	now := metav1.NewMicroTime(time.Now().Truncate(time.Microsecond)) // as the server keeps it
	l.Spec.HolderIdentity, l.Spec.AcquireTime = &identity, &now
}

// Renew sets the time of renewal, and the time for which the holder may be silent: other
// candidates would take the Lease too early if somebody had written a shorter one.
func Renew(l *coordinationv1.Lease, lasts time.Duration) {
	l.Spec.RenewTime = new(metav1.NowMicro())
	l.Spec.LeaseDurationSeconds = new(int32(lasts / time.Second))
}

// SameTerm reports whether a and b have the same holder since the same moment. The identity
// alone does not tell, since two processes may have been given the same one.
func SameTerm(a, b *coordinationv1.Lease) bool {
	return Holder(a) == Holder(b) && a.Spec.AcquireTime.Equal(b.Spec.AcquireTime)
}

// Sleep waits for d, or until wake can be received from. It returns false when ctx is done.
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

// Sighting is a Lease and the time since when it has been seen unchanged, by our own clock.
type Sighting struct {
	Lease *coordinationv1.Lease // nil if it has not been seen
	Since time.Time
}

// See records the Lease as it is now, and reports whether its holder gave a sign of life. Only
// a change of the spec is one: anybody may write a label into a Lease.
func (s *Sighting) See(l *coordinationv1.Lease, now time.Time) (alive bool) {
	if alive = s.Lease == nil || !equality.Semantic.DeepEqual(s.Lease.Spec, l.Spec); alive {
		s.Since = now
	}
	s.Lease = l
	return alive
}

package leaderelection

import (
	"context"
	"errors"
	"math"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/discovery"
)

// leases is where Leases are served. It is known, so that an election needs no
// discovery.
var leases = discovery.Mapping{
	Kind:       coordinationv1.SchemeGroupVersion.WithKind("Lease"),
	Resource:   coordinationv1.SchemeGroupVersion.WithResource("leases"),
	Namespaced: true,
	Verbs:      []string{"get", "create", "update"},
}

func holder(l *coordinationv1.Lease) string {
	if l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

func token(l *coordinationv1.Lease) int64 {
	if l.Spec.LeaseTransitions == nil {
		return 0
	}
	return int64(*l.Spec.LeaseTransitions)
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
	now := metav1.NewMicroTime(time.Now().Truncate(time.Microsecond)) // as the server keeps it
	next := last.DeepCopy()
	next.Spec.HolderIdentity = &e.opts.Identity
	next.Spec.LeaseDurationSeconds = new(int32(e.opts.LeaseDuration / time.Second))
	next.Spec.AcquireTime, next.Spec.RenewTime = &now, &now
	next.Spec.LeaseTransitions = &token
	return next
}

// renewed returns our lease with the time of now, and for as long as we want it: where
// somebody wrote a shorter time into it, others would take it while we work.
func (e *Elector) renewed(last *coordinationv1.Lease) *coordinationv1.Lease {
	next := last.DeepCopy()
	next.Spec.RenewTime = new(metav1.NowMicro())
	next.Spec.LeaseDurationSeconds = new(int32(e.opts.LeaseDuration / time.Second))
	return next
}

// released returns our lease as nobody's. The time for which it is held must be
// positive.
func (e *Elector) released(last *coordinationv1.Lease) *coordinationv1.Lease {
	next := e.renewed(last)
	next.Spec.HolderIdentity = new("")
	next.Spec.LeaseDurationSeconds = new(int32(1))
	return next
}

// sameTerm reports whether two states of a lease are of one term of one holder.
// Holder and token alone do not tell where the Lease was deleted, which starts the
// token anew, and two processes have one identity.
func sameTerm(a, b *coordinationv1.Lease) bool {
	return holder(a) == holder(b) && token(a) == token(b) && a.Spec.AcquireTime.Equal(b.Spec.AcquireTime)
}

// missing reports whether the API server says that there is no such Lease. A web server
// that does not know the path, such as a proxy's, says nothing of the Lease.
func missing(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// sighting is a lease and since when it was seen like this, by our own clock.
type sighting struct {
	lease *coordinationv1.Lease
	since time.Time
	race  *coordinationv1.Lease // the one that could not be taken because of a conflict
}

// raced reports whether a conflict is the first over this state of the lease. Where it
// is not, no other candidate was faster: something refuses us.
func (s *sighting) raced() bool {
	first := s.race == nil || s.race.ResourceVersion != s.lease.ResourceVersion
	s.race = s.lease
	return first
}

// see takes note of the lease as it is now. Only a change of the spec is a sign of
// life: anybody may write a label into a Lease.
func (s *sighting) see(l *coordinationv1.Lease, now time.Time) {
	if s.lease == nil || !equality.Semantic.DeepEqual(s.lease.Spec, l.Spec) {
		s.since = now
	}
	s.lease = l
}

// free reports whether the lease may be taken: nobody holds it, or its holder
// did not renew it for as long as it said itself.
func (s *sighting) free(fallback time.Duration) bool {
	if holder(s.lease) == "" {
		return true
	}
	held := fallback
	if said := s.lease.Spec.LeaseDurationSeconds; said != nil && *said > 0 {
		held = time.Duration(*said) * time.Second
	}
	return time.Since(s.since) >= held
}

func (e *Elector) get(ctx context.Context) (*coordinationv1.Lease, error) {
	now, err := e.leases.Get(ctx, object.Key{Name: e.opts.Name}, metav1.GetOptions{})
	if err == nil && (now.Name != e.opts.Name || now.Namespace != e.opts.Namespace || now.ResourceVersion == "") {
		err = errors.New("the answer is not this Lease: something between us and the API server gave it")
	}
	return now, err
}

func (e *Elector) create(ctx context.Context, l *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	fresh := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: e.opts.Name, Labels: e.opts.Labels}, Spec: l.Spec}
	now, err := e.leases.Create(ctx, fresh, metav1.CreateOptions{})
	return written(fresh, now, err)
}

// put writes l if the Lease is still as it was when l was made of it.
func (e *Elector) put(ctx context.Context, l *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	now, err := e.leases.Update(ctx, l, metav1.UpdateOptions{})
	return written(l, now, err)
}

// written makes sure that an answer shows the Lease as it was written. Everything rests
// on that, and not every success is the API server's.
func written(l, now *coordinationv1.Lease, err error) (*coordinationv1.Lease, error) {
	if err == nil && (now.Name != l.Name || now.ResourceVersion == l.ResourceVersion || !sameTerm(now, l)) {
		err = errors.New("the answer is a success, and not the Lease that was written: something between us and the API server gave it, or changed the Lease")
	}
	return now, err
}

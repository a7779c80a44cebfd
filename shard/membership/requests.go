package membership

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/internal/jitter"
	"github.com/millrace-dev/millrace/internal/lease"
	"github.com/millrace-dev/millrace/internal/redial"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/shard"
)

var (
	// errGone means that our Lease was deleted or taken over.
	errGone = errors.New("our Lease was deleted, or taken by another process")
	// errTwin means that another process with our identity holds the Lease.
	errTwin = errors.New("another process holds the Lease for our identity, because it is still running or was not stopped cleanly: waiting until the Lease expires; give each member its own identity")
	// errEdited means that the stored Lease does not contain what we wrote, so the others may think that our
	// slots are free.
	errEdited = errors.New("our Lease does not contain what we wrote: another client or an admission policy changed it")
)

// attempt is a single write to our Lease.
type attempt struct {
	statement
	last      *coordinationv1.Lease // the Lease before the write, or the Lease to create
	sure      shard.Slots           // slots that the Lease should claim before the write; see keeper.sure
	shown     string                // the resource version that the watch had reached by then
	sent      time.Time
	given     time.Time   // when to abandon it
	abandoned atomic.Bool // the attempt was abandoned
	deletes   bool
	back      bool // the server's copy of our Lease was older than last
}

// answer is the result of a request.
type answer struct {
	*attempt // nil if another member's Lease was deleted
	lease    *coordinationv1.Lease
	err      error
}

// begin starts a write to our Lease.
func (k *keeper) begin(ctx context.Context, s statement, do func(context.Context, *attempt) (*coordinationv1.Lease, error)) {
	a := &attempt{statement: s, last: cmp.Or(k.own, k.fresh), shown: k.informer.Status().Reflector.RV, sent: time.Now()}
	// Leave time for two attempts before the deadline.
	limited, cancel := context.WithTimeout(ctx, k.opts.RenewDeadline*2/5)
	if k.mute {
		limited = redial.Mark(limited)
	}
	a.given = a.sent.Add(k.opts.RenewDeadline / 2)
	k.attempt = a
	k.sure = k.sure.Without(k.sure.Without(s.claims)) // the write may or may not succeed
	a.sure = k.sure
	k.ask(a, func() (*coordinationv1.Lease, error) {
		defer cancel()
		return do(limited, a)
	})
}

// ask sends a request in a separate goroutine.
func (k *keeper) ask(of *attempt, do func() (*coordinationv1.Lease, error)) {
	pending := &k.writes
	if of == nil {
		pending = &k.expels
	}
	*pending++
	k.requests.Go(func() {
		now, err := lease.Guard(do)
		k.answers <- answer{of, now, err}
	})
}

// create creates our Lease. An earlier attempt may already have done so, even if we never received the
// response.
func (k *keeper) create(ctx context.Context, a *attempt) (*coordinationv1.Lease, error) {
	now, err := k.leases.Create(ctx, a.last)
	if apierrors.IsAlreadyExists(err) {
		now, err = k.leases.Get(ctx, a.last.Name)
		switch {
		case err != nil:
		case now.Labels[GroupLabel] != k.opts.Name:
			return nil, fmt.Errorf("the Lease %s has the same name as ours but lacks the group's label %s=%s: delete it, or give this member a different identity", now.Name, GroupLabel, k.opts.Name)
		case !lease.SameTerm(now, a.last):
			return now, errTwin
		}
		a.shown = "" // it was written by an earlier attempt
	}
	return k.stored(a, now, err)
}

// stored returns an error if a write succeeded but the server stored something else.
func (k *keeper) stored(a *attempt, now *coordinationv1.Lease, err error) (*coordinationv1.Lease, error) {
	if err == nil && !k.opts.states(now, a.statement) {
		err = errEdited
	}
	return now, err
}

// update writes our Lease.
func (k *keeper) update(ctx context.Context, a *attempt) (*coordinationv1.Lease, error) {
	ours := func(now *coordinationv1.Lease) error {
		switch {
		case now.UID != a.last.UID || !lease.SameTerm(now, a.last):
			return errGone
		case a.abandoned.Load():
			return lease.ErrDeaf // the result would be outdated
		}
		a.back = behind(now.ResourceVersion, a.last.ResourceVersion)
		if !a.back && a.sure.Without(k.opts.read(now).claims).Len() > 0 {
			return errEdited
		}
		return nil
	}
	now, err := k.leases.Change(ctx, a.last, ours, func(l *coordinationv1.Lease) { k.opts.write(l, a.statement) })
	if failure.Missing(err) {
		return nil, errGone
	}
	return k.stored(a, now, err)
}

// remove deletes our Lease, which at that point claims nothing.
func (k *keeper) remove(ctx context.Context, a *attempt) (*coordinationv1.Lease, error) {
	a.deletes = true
	return nil, k.leases.Delete(ctx, a.last)
}

// answered processes the result of a request.
func (k *keeper) answered(a answer) {
	now := time.Now()
	if a.attempt == nil {
		k.expels--
	} else {
		k.writes--
	}
	if a.attempt == nil || a.attempt != k.attempt {
		if a.err != nil && a.attempt == nil && !apierrors.IsConflict(a.err) {
			k.trouble.Failed("a silent member's lease could not be deleted", a.err)
		}
		return // the attempt was abandoned, so its result does not matter
	}
	k.attempt = nil
	k.mute = errors.Is(a.err, context.DeadlineExceeded)
	switch {
	case errors.Is(a.err, errGone):
		k.lost(a.err)
		k.due, k.rest = now, now
	case a.err != nil:
		if errors.Is(a.err, errTwin) { // expel it once it expires, even if it was ours before
			delete(k.ours, a.lease.UID)
		}
		if errors.Is(a.err, errEdited) { // others may take our slots: end the terms, and claim them again
			k.own, k.sure, k.fresh, k.ours[a.lease.UID] = a.lease, shard.NewSlots(k.opts.Slots), nil, true
			k.mu.Lock()
			k.loseAll(fmt.Errorf("%w: %w", shard.ErrLost, a.err))
			k.mu.Unlock()
		}
		k.trouble.Failed("our lease could not be written", a.err)
		k.rest = now.Add(k.opts.RetryPeriod / 4) // the deadline is near
	case a.deletes:
		k.done = true
	default:
		if k.own == nil {
			k.ours[a.lease.UID] = true
			k.opts.Logger.Info("joined the group", "identity", k.opts.Identity, "lease", a.lease.Name)
		}
		k.own, k.sure, k.fresh = a.lease, a.claims, nil
		if k.unseen.IsZero() {
			k.unseen = now
		}
		k.due, k.deadline = a.sent.Add(k.opts.RetryPeriod), a.sent.Add(k.opts.RenewDeadline)
		k.mu.Lock()
		k.until = k.deadline
		k.mu.Unlock()
		k.trouble.Answered()
		if a.back || behind(a.lease.ResourceVersion, a.shown) {
			k.wentBack(a)
		}
	}
}

// wentBack ends all terms, because the server was restored to an older state. Claimed slots are held again
// once a snapshot of the restored state shows that no other member claims them.
func (k *keeper) wentBack(a answer) {
	k.mu.Lock()
	k.loseAll(fmt.Errorf("%w: %w", shard.ErrLost, reflector.ErrWentBack))
	k.mu.Unlock()
	k.opts.Logger.Error("the server's history went back, as after a restore from a backup; the work has to stop", "shown", a.shown, "before", a.last.ResourceVersion, "written", a.lease.ResourceVersion)
	k.informer.Reconnect(fmt.Errorf("%w: our lease at version %s was written at version %s, after the watch had shown %s; the server's history went back", reflector.ErrDeaf, a.last.ResourceVersion, a.lease.ResourceVersion, a.shown))
}

// lost discards our Lease and cancels all work.
func (k *keeper) lost(err error) {
	k.own, k.sure = nil, shard.NewSlots(k.opts.Slots)
	k.mu.Lock()
	k.loseAll(fmt.Errorf("%w: %w", shard.ErrLost, err))
	for n := range k.slots {
		k.slots[n].phase = none // others now ignore our claims
	}
	k.until = time.Time{}
	k.mu.Unlock()
	k.deadline = time.Time{}
	k.opts.Logger.Error("our lease was lost; the work has to stop", "err", err)
}

// bury deletes the Lease of a member that has been silent for too long. If the Lease claims slots, bury
// first marks its member as having left, on condition that the Lease has not changed. That way, a member that
// sees the last renewal and this write at the same time knows that the slots are free. If the Lease were
// deleted with its claims still in it, that member would have to wait. A Lease without an acquire time
// belongs to no term, so a late renewal fails.
func (k *keeper) bury(ctx context.Context, l *coordinationv1.Lease, s said) error {
	if s.err == nil && s.layout == k.opts.layout() && s.claims.Len() > 0 {
		l = l.DeepCopy()
		l.Spec.AcquireTime = nil
		metav1.SetMetaDataAnnotation(&l.ObjectMeta, slotsAnnotation, "") // another client may have removed all annotations
		metav1.SetMetaDataAnnotation(&l.ObjectMeta, stateAnnotation, stateLeaving)
		var err error
		if l, err = k.leases.Update(ctx, l); failure.Missing(err) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return k.leases.Delete(ctx, l)
}

// expel deletes the Leases of members that have been silent for too long. A random delay keeps members from
// all doing this at the same time.
func (k *keeper) expel(ctx context.Context, now time.Time, v view) {
	there := map[types.UID]bool{}
	for _, other := range v.others {
		uid := other.Lease.UID
		if !other.expired(now) {
			continue
		}
		there[uid] = true
		at, known := k.expelling[uid]
		switch {
		case !known:
			k.expelling[uid] = now.Add(jitter.Below(k.opts.RetryPeriod / 4))
			continue
		case now.Before(at) || k.expels > 0:
			continue
		}
		k.expelling[uid] = now.Add(k.opts.RetryPeriod)
		k.opts.Logger.Info("a member has been silent for too long", "identity", lease.Holder(other.Lease), "for", now.Sub(other.Since), "slots", other.said.claims.Len())
		limited, cancel := context.WithTimeout(ctx, k.opts.RenewDeadline/2)
		k.ask(nil, func() (*coordinationv1.Lease, error) {
			defer cancel()
			return nil, k.bury(limited, other.Lease, other.said)
		})
	}
	for uid := range k.expelling {
		if !there[uid] {
			delete(k.expelling, uid)
		}
	}
}

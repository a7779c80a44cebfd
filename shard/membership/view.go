package membership

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/internal/lease"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// sightings tracks, by our own clock, how long Leases have been silent. It also keeps track of deleted
// Leases that claimed slots.
type sightings struct {
	opts Options
	told func() // called after each change, without holding mu

	mu  sync.Mutex // guards the fields below
	all map[types.UID]*sighting
}

// sighting is the last seen state of a Lease.
type sighting struct {
	lease.Sighting
	said  said
	back  bool // the Lease reverted to an older state, and its member has not written it since
	gone  bool // the handler last received a Delete
	empty bool // the Lease claimed nothing when it was deleted
}

func (s *sighting) expired(now time.Time) bool { return now.Sub(s.Since) >= s.said.lasts }

// Handle implements sharedinformer.Handler.
func (s *sightings) Handle(_ context.Context, e sharedinformer.Event[*coordinationv1.Lease]) error {
	s.mu.Lock()
	if e.Type == sharedinformer.Delete {
		one := s.see(e.Object, time.Now())
		if e.FinalStateUnknown { // the member may have renewed it until now without being seen
			one.Since = time.Now()
			if !one.said.leaving { // it may also have claimed any slot
				one.said.claims = shard.AllSlots(s.opts.Slots)
			}
		}
		one.gone, one.empty = true, one.said.claims.Len() == 0 && !e.FinalStateUnknown
	} else if one := s.all[e.Object.UID]; one != nil { // the group label was removed and has been restored
		one.gone = false
	}
	s.mu.Unlock()
	s.told()
	return nil
}

// see updates the sighting of a Lease. If the server was restored to an older state, the member may still
// be working in slots that the restored Lease does not claim, until it writes the Lease again. The same is
// true if another client edits the Lease: a member changes the renewal time with each write. A Lease without
// an acquire time belongs to no term (see bury). The caller holds mu.
func (s *sightings) see(l *coordinationv1.Lease, now time.Time) *sighting {
	one := s.all[l.UID]
	if one == nil {
		one = &sighting{}
		s.all[l.UID] = one
	} else if one.Lease.ResourceVersion == l.ResourceVersion {
		return one
	}
	said, before := s.opts.read(l), one.Lease
	alive := one.See(l, now)
	one.back = before != nil && (behind(l.ResourceVersion, before.ResourceVersion) || one.back && !alive)
	switch {
	case one.back:
		said.claims = said.claims.Union(one.said.claims)
	case before != nil && l.Spec.AcquireTime != nil && l.Spec.RenewTime.Equal(before.Spec.RenewTime):
		said = one.said
	}
	one.said = said
	return one
}

// view is a snapshot of the group's Leases.
type view struct {
	own     *coordinationv1.Lease // nil if there is none
	others  []*sighting           // copies of the other Leases, sorted by name
	taken   shard.Slots           // slots that other members own or may own
	expires time.Time             // when the next of the others expires; zero if none will
}

// look returns a view of the given Leases. Leases whose UID is in ours are not included in others.
//
// If a Lease with claims was deleted, its member may not have noticed and may still be working. Its slots
// therefore remain taken until the time at which the Lease would have expired.
func (s *sightings) look(now time.Time, leases []*coordinationv1.Lease, ours map[types.UID]bool) view {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := view{taken: shard.NewSlots(s.opts.Slots)}
	there := map[types.UID]bool{}
	expires := func(one *sighting) {
		if at := one.Since.Add(one.said.lasts); v.expires.IsZero() || at.Before(v.expires) {
			v.expires = at
		}
	}
	for _, l := range leases {
		there[l.UID] = true
		if ours[l.UID] {
			v.own = l
			continue
		}
		one := s.all[l.UID]
		if one != nil && one.gone { // the handler has seen more than this snapshot
			one = &sighting{Sighting: lease.Sighting{Lease: l, Since: one.Since}, said: s.opts.read(l)}
		} else {
			one = s.see(l, now)
		}
		v.others = append(v.others, new(*one))
		v.taken = v.taken.Union(one.said.claims)
		expires(one)
	}
	maps.DeleteFunc(s.all, func(uid types.UID, one *sighting) bool {
		if there[uid] || ours[uid] {
			return ours[uid]
		}
		if one.gone && (one.empty || one.expired(now)) { // there is no need to remember a Lease without claims
			return true
		}
		v.taken = v.taken.Union(one.said.claims)
		expires(one)
		return false
	})
	slices.SortFunc(v.others, func(a, b *sighting) int { return strings.Compare(a.Lease.Name, b.Lease.Name) })
	return v
}

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

// sightings remembers since when Leases have been silent, by our own clock, and those
// that went with slots.
type sightings struct {
	opts Options
	told func() // something has changed; called without the lock

	mu  sync.Mutex // guards what follows
	all map[types.UID]*sighting
}

// sighting is a Lease as it was last seen.
type sighting struct {
	lease.Sighting
	said  said
	back  bool // it was taken back to an older state, and its member has not written since
	gone  bool // the handler has heard last that it was deleted
	empty bool // and that it had nothing then
}

func (s *sighting) expired(now time.Time) bool { return now.Sub(s.Since) >= s.said.lasts }

// Handle implements sharedinformer.Handler.
func (s *sightings) Handle(_ context.Context, e sharedinformer.Event[*coordinationv1.Lease]) error {
	s.mu.Lock()
	if e.Type == sharedinformer.Delete {
		one := s.see(e.Object, time.Now())
		one.gone, one.empty = true, one.said.claims.Len() == 0 && !e.FinalStateUnknown
	} else if one := s.all[e.Object.UID]; one != nil { // it has its label again
		one.gone = false
	}
	s.mu.Unlock()
	s.told()
	return nil
}

// see takes note of a Lease. It is called under mu. Where the server's history went back, its member
// may work in what it had claimed until it has written it again.
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
	if one.back {
		said.claims = said.claims.Union(one.said.claims)
	}
	one.said = said
	return one
}

// view is the group at one moment, as a snapshot of the Leases shows it.
type view struct {
	own     *coordinationv1.Lease // nil if there is none
	others  []*sighting           // whose Leases there are, by name; copies
	taken   shard.Slots           // what others have, or may have
	expires time.Time             // when the first of the others does; zero for never
}

// look makes a view of the Leases that there are. Those with a UID of ours are not of others.
//
// A Lease that went with slots says nothing of who took it away. If its member is alive, it
// may work on until it hears of that: so the slots stay taken for as long as they would
// have been.
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
		if one != nil && one.gone { // the handler is ahead of this snapshot
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
		if one.gone && (one.empty || one.expired(now)) { // who had nothing leaves nothing
			return true
		}
		v.taken = v.taken.Union(one.said.claims)
		expires(one)
		return false
	})
	slices.SortFunc(v.others, func(a, b *sighting) int { return strings.Compare(a.Lease.Name, b.Lease.Name) })
	return v
}

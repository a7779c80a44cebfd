package membership

import (
	"fmt"
	"time"

	"github.com/millrace-dev/millrace/shard"
)

// Status is a group seen from one member at one moment.
type Status struct {
	Group    string
	Identity string // ours
	Weight   int    // ours

	Owned   shard.Slots // what we may work on
	Wanted  shard.Slots // what is to be ours
	Leaving shard.Slots // what we have yet to hand over, since work in it goes on

	Members []Member    // all that have a Lease, we among them, by identity
	Orphans shard.Slots // what nobody claims
	Moving  shard.Slots // what is another's than whose it is to be

	Refusal error    // why we take no slots though we could; nil otherwise
	Lost    *Failure // why our Lease was lost the last time; nil if it never was

	Attempts int      // failures since the last success; 0 means that all is well
	Failure  *Failure // the last one ever, nil if there was none
}

// Member is what the Lease of one member says.
type Member struct {
	Identity string
	Weight   int
	Claims   shard.Slots // what it has, or is about to have
	Wanted   int         // how many slots are to be its
	Leaving  bool
	Silent   time.Duration // since its last sign of life
	Expired  bool          // it has been silent for too long
	Trouble  string        // why it takes no part, empty if it does
}

// Failure is trouble with the server.
type Failure struct {
	Err  error
	When time.Time
}

// Error is the reason.
func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap returns Err.
func (f *Failure) Unwrap() error { return f.Err }

// MarshalText lets a status print readably as JSON.
func (f *Failure) MarshalText() ([]byte, error) { return []byte(f.Error()), nil }

// Status returns the group as it is now.
func (g *Group) Status() Status {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.status
	s.Owned, s.Leaving = g.owned, g.those(func(p phase) bool { return p == leaving })
	s.Refusal = g.refused
	return s
}

// members describes everybody who has a Lease, and us.
func (k *keeper) members(now time.Time, v view) []Member {
	var all []Member
	if k.own != nil {
		k.mu.Lock()
		all = append(all, Member{Identity: k.opts.Identity, Weight: k.opts.Weight, Claims: k.claims(), Leaving: k.leaving})
		k.mu.Unlock()
	}
	for _, o := range v.others {
		m := Member{Identity: holder(o.lease), Weight: o.said.weight, Claims: o.said.claims, Leaving: o.said.leaving, Silent: now.Sub(o.since), Expired: o.expired(now)}
		switch {
		case o.said.err != nil:
			m.Trouble = fmt.Sprintf("its Lease %s cannot be read: %v", o.lease.Name, o.said.err)
		case o.said.layout != k.opts.layout():
			m.Trouble = fmt.Sprintf("it works with %q, and we with %q", o.said.layout, k.opts.layout())
		}
		all = append(all, m)
	}
	for n := range all {
		all[n].Wanted = k.wanted(all[n].Identity).Len()
	}
	return all
}

// moving returns what others claim and is not to be theirs, and what we have to give.
func (k *keeper) moving(v view) shard.Slots {
	all := shard.NewSlots(k.opts.Slots)
	for _, o := range v.others {
		all = all.Union(o.said.claims.Without(k.wanted(holder(o.lease))))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return all.Union(k.claims().Without(k.wanted(k.opts.Identity)))
}

// well notes that all that was asked for was done.
func (k *keeper) well() {
	k.mu.Lock()
	failed := k.status.Attempts
	k.status.Attempts = 0
	k.mu.Unlock()
	if failed > 0 {
		k.opts.Logger.Info("the API server answers again", "failed", failed)
	}
}

// failed notes trouble with the server. The log hears of the first of a row, and then of
// every hundredth.
func (k *keeper) failed(what string, err error) {
	k.mu.Lock()
	k.status.Attempts++
	k.status.Failure = &Failure{fmt.Errorf("%s: %w", what, err), time.Now()}
	attempts := k.status.Attempts
	k.mu.Unlock()
	if attempts%100 == 1 {
		k.opts.Logger.Warn(what, "err", err, "attempts", attempts)
	}
}

package membership

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/internal/lease"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/shard"
)

// Labels and annotations of a member's Lease.
const (
	// GroupLabel is the label on all Leases of a group. Its value is the group's name.
	GroupLabel = "shard.millrace.dev/group"

	layoutAnnotation = "shard.millrace.dev/layout"
	slotsAnnotation  = "shard.millrace.dev/slots" // slots that the member owns or is about to take
	weightAnnotation = "shard.millrace.dev/weight"
	stateAnnotation  = "shard.millrace.dev/state" // one of the following, or empty

	stateLeaving = "leaving"
	stateDeaf    = "deaf" // keeps its slots, but takes no others
)

// leaseName returns the name of a member's Lease. Identities may contain any characters, so the name
// contains a hash.
func leaseName(group, identity string) string {
	return fmt.Sprintf("%s-%016x", group, shard.Hash(identity))
}

// layout returns the settings that all members of a group must share.
func (o Options) layout() string { return fmt.Sprintf("%d slots; %s", o.Slots, o.Layout) }

// statement is what a member's Lease states about the member.
type statement struct {
	claims  shard.Slots
	leaving bool
	deaf    bool // its watch does not show its renewals, so it cannot see whether a slot is free
}

// fresh returns a new Lease for us.
func (o Options) fresh(c statement) *coordinationv1.Lease {
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: leaseName(o.Name, o.Identity), Labels: maps.Clone(o.Labels)}}
	lease.Acquire(l, o.Identity, o.LeaseDuration)
	o.write(l, c)
	return l
}

// write renews our Lease and sets its content to a statement.
func (o Options) write(l *coordinationv1.Lease, c statement) {
	lease.Renew(l, o.LeaseDuration)
	if l.Labels == nil {
		l.Labels = map[string]string{}
	}
	if l.Annotations == nil {
		l.Annotations = map[string]string{}
	}
	l.Labels[GroupLabel] = o.Name
	l.Annotations[layoutAnnotation] = o.layout()
	l.Annotations[slotsAnnotation] = c.claims.String()
	l.Annotations[weightAnnotation] = strconv.Itoa(o.Weight)
	delete(l.Annotations, stateAnnotation)
	switch {
	case c.leaving:
		l.Annotations[stateAnnotation] = stateLeaving
	case c.deaf:
		l.Annotations[stateAnnotation] = stateDeaf
	}
}

// states reports whether a Lease contains a statement of ours.
func (o Options) states(l *coordinationv1.Lease, c statement) bool {
	s := o.read(l)
	return s.err == nil && s.layout == o.layout() && s.claims.Equal(c.claims) && s.leaving == c.leaving && s.deaf == c.deaf &&
		s.weight == o.Weight && s.lasts == o.LeaseDuration && l.Labels[GroupLabel] == o.Name
}

// behind reports whether the resource version rv is older than the version than. If rv arrived later, the
// server was restored to an older state.
func behind(rv, than string) bool {
	order, err := object.CompareRV(rv, than)
	return err == nil && order < 0
}

// said is the parsed content of one of the group's Leases.
type said struct {
	statement
	layout string
	weight int
	lasts  time.Duration // how long the member may be silent
	err    error         // why the Lease cannot be parsed; if set, we assume that it claims everything
}

// read parses a Lease of the group. If the Lease has a different layout from ours, its slots cover different
// ranges, so if its member claims any slot, we assume that it claims all of ours.
func (o Options) read(l *coordinationv1.Lease) said {
	s := said{layout: l.Annotations[layoutAnnotation], lasts: lease.Lasts(l, o.LeaseDuration)}
	state := l.Annotations[stateAnnotation]
	s.claims, s.leaving, s.deaf = shard.NewSlots(o.Slots), state == stateLeaving, state == stateDeaf
	var err3 error
	if s.lasts > longest { // too long to wait for
		err3 = fmt.Errorf("it may be silent for %s: want at most %s", s.lasts, longest)
		s.lasts = o.LeaseDuration
	}
	slots := l.Annotations[slotsAnnotation]
	if s.layout != o.layout() {
		if slots != "" {
			s.claims = shard.AllSlots(o.Slots)
		}
		s.err = err3
		return s
	}
	claims, err := shard.ParseSlots(slots, o.Slots)
	weight, err2 := strconv.Atoi(l.Annotations[weightAnnotation])
	if err2 == nil && (weight < 1 || weight > mostWeight) {
		err2 = fmt.Errorf("its weight is %d: want 1 to %d", weight, mostWeight)
	}
	if s.err = errors.Join(err, err2, err3); s.err != nil {
		s.claims = shard.AllSlots(o.Slots)
		return s
	}
	s.claims, s.weight = claims, weight
	return s
}

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

// What a member's Lease says, besides who it is and how long it may be silent.
const (
	// GroupLabel is the label by which the Leases of a group are found. Its value is the
	// group's name.
	GroupLabel = "shard.millrace.dev/group"

	layoutAnnotation = "shard.millrace.dev/layout"
	slotsAnnotation  = "shard.millrace.dev/slots" // what the member has, or is about to have
	weightAnnotation = "shard.millrace.dev/weight"
	stateAnnotation  = "shard.millrace.dev/state" // stateLeaving, or nothing

	stateLeaving = "leaving"
)

// leaseName is that of a member's Lease. Identities may have any characters.
func leaseName(group, identity string) string {
	return fmt.Sprintf("%s-%016x", group, shard.Hash(identity))
}

// layout is what all members of a group must have alike.
func (o Options) layout() string { return fmt.Sprintf("%d slots; %s", o.Slots, o.Layout) }

// statement is what we say in our Lease.
type statement struct {
	claims  shard.Slots
	leaving bool
}

// fresh returns a Lease of ours that there has not been.
func (o Options) fresh(c statement) *coordinationv1.Lease {
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: leaseName(o.Name, o.Identity), Labels: maps.Clone(o.Labels)}}
	lease.Acquire(l, o.Identity, o.LeaseDuration)
	o.write(l, c)
	return l
}

// write renews a Lease of ours with what we have to say.
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
	if c.leaving {
		l.Annotations[stateAnnotation] = stateLeaving
	}
}

// behind reports whether a resource version is known to be from before another. Where it came after
// that, the server's history went back.
func behind(rv, than string) bool {
	order, err := object.CompareRV(rv, than)
	return err == nil && order < 0
}

// said is what a Lease of the group says.
type said struct {
	statement
	layout string
	weight int
	lasts  time.Duration // for how long its member may be silent
	err    error         // why it cannot be read; it then claims everything
}

// read reads a Lease of a group with this layout. Slots of another layout are other
// slots: who has any of them has something of all of ours.
func (o Options) read(l *coordinationv1.Lease) said {
	s := said{layout: l.Annotations[layoutAnnotation], lasts: lease.Lasts(l, o.LeaseDuration)}
	s.claims, s.leaving = shard.NewSlots(o.Slots), l.Annotations[stateAnnotation] == stateLeaving
	var err3 error
	if s.lasts > longest { // nobody is to wait for that
		err3 = fmt.Errorf("it may be silent for %s: want %s at most", s.lasts, longest)
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

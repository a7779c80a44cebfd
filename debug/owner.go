package debug

import (
	"cmp"
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/shard/membership"
)

// Sharing identifies a sharded informer that cannot tell whether the object belongs to its share. To find
// out, repeat the query with the object's hash under Key (see shard.KeyNamed).
type Sharing struct {
	Informer string
	Key      string
	Group    string
}

// scoped is implemented by informers that may be sharded.
type scoped interface{ Scope() shard.Scope }

// owners reports the member that owns the object in each group that shards one of the process's
// informers. hash is the object's hash, if the client knows it.
func (i *inquiry) owners(all []one, groups []Membership, hash string) (unknown []Sharing) {
	told := map[string]bool{} // report each of a group's slots only once
	for _, each := range all {
		of, ok := each.view.(scoped)
		if !ok || !means(i.informer, each) {
			continue
		}
		scope := of.Scope()
		for _, g := range groups {
			if scope.Everything() || scope.Err() != nil || any(scope.Share) != any(g) {
				continue
			}
			h, known := i.hashOf(each, scope.Key, hash)
			s := g.Status()
			if !known {
				unknown = append(unknown, Sharing{each.status.Reflector.Resource, scope.Key.String(), s.Group})
				continue
			}
			slot := g.Slot(shard.SlotOf(h, s.Slots))
			if which := fmt.Sprint(s.Group, " ", slot.Slot); !told[which] {
				told[which] = true
				i.owner(s, slot)
			}
		}
	}
	return unknown
}

// hashOf returns the object's hash, if this process can compute it.
func (i *inquiry) hashOf(of one, key shard.Key, given string) (uint64, bool) {
	if head, ok := of.view.Heads().Get(i.key); ok {
		return key.Hash(head), true
	}
	if key.String() == shard.ByNamespace().String() {
		return key.Hash(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: i.key.Namespace}}), true
	}
	h, err := strconv.ParseUint(given, 16, 64)
	return h, err == nil
}

// owner reports the member that owns a slot.
func (i *inquiry) owner(s membership.Status, h membership.Holding) {
	slot := fmt.Sprintf("slot %d of the group %s", h.Slot, s.Group)
	us := func(name string) string {
		if name == s.Identity {
			return name + " (this replica)"
		}
		return name
	}
	switch {
	case s.Seen.IsZero():
		i.say(Unowned, "The owner of %s is unknown: %v.", i.name, orReason(s.Refusal, "the group has not been seen yet"))
	case h.Owner == "" && h.To == "":
		i.say(Unowned, "%s has had no owner for %s: %s is not assigned to any member.", i.name, age(i.now, h.Since), slot)
	case h.Owner == "":
		i.say(Unowned, "%s has had no owner for %s: %s is assigned to %s, which has not taken it.", i.name, age(i.now, h.Since), slot, us(h.To))
	case !h.Waiting.IsZero():
		work := "its work in progress"
		if h.Owner == s.Identity {
			work = pieces(h.Hands)
		}
		i.say(HandedOver, "%s is being handed over from %s to %s (%s): it has waited %s for %s to finish %s.", i.name, us(h.Owner), cmp.Or(us(h.To), "another member"), slot, age(i.now, h.Waiting), h.Owner, work)
	case h.Owner == s.Identity:
		i.say(Owned, "%s has been owned by %s for %s (%s).", i.name, us(h.Owner), age(i.now, h.Since), slot)
	default:
		i.say(Elsewhere, "%s is owned by the member %s, not by %s: it has owned %s for at least %s.", i.name, h.Owner, us(s.Identity), slot, age(i.now, h.Since))
	}
	if !s.Seen.IsZero() && s.Refusal != nil {
		i.say(NotRunning, "This replica does not participate in the group %s: %v. Its information about the group is %s old.", s.Group, s.Refusal, age(i.now, s.Seen))
	}
}

func orReason(err error, otherwise string) any {
	if err != nil {
		return err
	}
	return otherwise
}

func pieces(n int) string {
	if n == 1 {
		return "one piece of work"
	}
	return fmt.Sprintf("%d pieces of work", n)
}

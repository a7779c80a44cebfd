package membership

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/internal/lease"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/shard"
)

// Look determines the status of all groups in a namespace, or of the named group, from their Leases. Use it
// to inspect groups without being a member. An empty namespace means all namespaces. Look needs permission to
// list leases, and the client's scheme must include Lease. The statuses are sorted by namespace and name.
// They lack an Identity and the times of pending moves. How long members have been silent is computed by
// comparing their clocks with ours. If a member's layout differs from the majority's, its Trouble is set.
func Look(ctx context.Context, client *rest.Client, namespace, group string) ([]Status, error) {
	selector := GroupLabel
	if group != "" {
		selector += "=" + group
	}
	leases, err := lease.NewClient(client, namespace)
	if err != nil {
		return nil, fmt.Errorf("membership: %w", err)
	}
	list := leases.List(ctx, metav1.ListOptions{LabelSelector: selector})
	var all []*coordinationv1.Lease
	for l, err := range list.Items {
		if err != nil {
			where := "namespace " + namespace
			if namespace == "" {
				where = "all namespaces"
			}
			return nil, fmt.Errorf("list the Leases of groups in %s: %w", where, err)
		}
		all = append(all, l)
	}
	return groupsOf(time.Now(), all), nil
}

func groupsOf(now time.Time, leases []*coordinationv1.Lease) []Status {
	each := map[object.Key][]*coordinationv1.Lease{}
	for _, l := range leases {
		if name := l.Labels[GroupLabel]; name != "" {
			key := object.Key{Namespace: l.Namespace, Name: name}
			each[key] = append(each[key], l)
		}
	}
	var all []Status
	for _, key := range slices.SortedFunc(maps.Keys(each), byKey) {
		all = append(all, groupOf(now, key, each[key]))
	}
	return all
}

func byKey(a, b object.Key) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

func groupOf(now time.Time, key object.Key, leases []*coordinationv1.Lease) Status {
	o := layoutOf(leases)
	o.Name, o.LeaseDuration = key.Name, lease.DefaultDuration
	s := Status{Namespace: key.Namespace, Group: key.Name, Slots: o.Slots, Layout: o.Layout, Seen: now, Orphans: shard.AllSlots(o.Slots)}
	var all []candidate
	for _, l := range leases {
		said := o.read(l)
		m := o.member(l, said, silence(now, l))
		s.Members = append(s.Members, m)
		s.Orphans = s.Orphans.Without(m.Claims)
		if m.Trouble == "" && !m.Expired && !m.Leaving && !m.Deaf {
			all = append(all, candidate{m.Identity, m.Weight})
		}
	}
	slices.SortFunc(s.Members, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.Identity, b.Identity), cmp.Compare(a.Lease, b.Lease))
	})
	owners, slots := targets(o.Slots, distinct(all))
	for n := range s.Members {
		s.Members[n].Wanted = slots[s.Members[n].Identity].Len()
	}
	s.Moving, s.Moves = movesOf(placesOf(o.Slots, s.Members, owners), func(int) int { return 0 })
	return s
}

// silence returns how long a member has been silent, comparing its clock with ours.
func silence(now time.Time, l *coordinationv1.Lease) time.Duration {
	at := l.CreationTimestamp.Time
	if l.Spec.RenewTime != nil {
		at = l.Spec.RenewTime.Time
	}
	return max(now.Sub(at), 0)
}

// layoutOf returns the number of slots and the layout that occur in most Leases.
func layoutOf(leases []*coordinationv1.Lease) (o Options) {
	counts := map[string]int{}
	for _, l := range leases {
		counts[l.Annotations[layoutAnnotation]]++
	}
	texts := slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Or(counts[b]-counts[a], cmp.Compare(a, b)) })
	for _, text := range texts {
		number, layout, ok := strings.Cut(text, " slots; ")
		if n, err := strconv.Atoi(number); ok && err == nil && n >= 1 && n <= mostSlots && text == fmt.Sprintf("%d slots; %s", n, layout) {
			return Options{Slots: n, Layout: layout}
		}
	}
	return Options{Slots: defaultSlots}
}

package membership

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/sharedinformer"
)

// If the server's history goes back, a member's earlier claims stay taken until it has written its
// Lease again.
func TestS01_ALeaseThatWentBackKeepsWhatItClaimed(t *testing.T) {
	opts, err := Options{Namespace: "shop", Name: "carts", Slots: 8}.withDefaults()
	require.NoError(t, err)
	s := &sightings{opts: opts, told: func() {}, all: map[types.UID]*sighting{}}
	start := time.Now()
	taken := func(rv, slots string, written time.Duration) string {
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "carts-1", UID: "u", ResourceVersion: rv, Annotations: map[string]string{
			layoutAnnotation: opts.layout(), slotsAnnotation: slots, weightAnnotation: "1",
		}}, Spec: coordinationv1.LeaseSpec{RenewTime: new(metav1.NewMicroTime(start.Add(written)))}}
		return s.look(start, []*coordinationv1.Lease{l}, map[types.UID]bool{}).taken.String()
	}
	require.Equal(t, "0-3", taken("50", "0-3", 5*time.Second))
	require.Equal(t, "0-4", taken("30", "2-4", 3*time.Second))
	require.Equal(t, "0-4", taken("30", "2-4", 3*time.Second))
	require.Equal(t, "0-4", taken("31", "2-4", 3*time.Second), "somebody else has written to it")
	require.Equal(t, "1", taken("32", "1", 7*time.Second))
}

// A Lease whose deletion arrives while an older snapshot is examined does not keep its slots forever.
func TestADeletionAheadOfASnapshot(t *testing.T) {
	opts, err := Options{Namespace: "shop", Name: "carts", Slots: 8}.withDefaults()
	require.NoError(t, err)
	state := func(rv, slots string) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "carts-1", UID: "u", ResourceVersion: rv, Annotations: map[string]string{
			layoutAnnotation: opts.layout(), slotsAnnotation: slots, weightAnnotation: "1",
		}}}
	}
	now := time.Now()
	look := func(s *sightings, at time.Time, all ...*coordinationv1.Lease) string {
		return s.look(at, all, map[types.UID]bool{}).taken.String()
	}
	for _, one := range []struct {
		last          string // its last claims
		unknown       bool
		soon, expired string // the slots taken then
	}{
		{last: "", soon: "", expired: ""},
		{last: "0-3", soon: "0-3", expired: ""},
		{last: "", unknown: true, soon: "0-7", expired: ""},
	} {
		s := &sightings{opts: opts, told: func() {}, all: map[types.UID]*sighting{}}
		require.Equal(t, "0-3", look(s, now, state("5", "0-3")))
		require.NoError(t, s.Handle(t.Context(), sharedinformer.Event[*coordinationv1.Lease]{Type: sharedinformer.Delete, Object: state("7", one.last), FinalStateUnknown: one.unknown}))
		require.Equal(t, "0-3", look(s, now, state("5", "0-3")), "as the snapshot has it")
		require.Equal(t, one.soon, look(s, now.Add(time.Second)))
		require.Equal(t, one.expired, look(s, now.Add(time.Minute)))
		require.Empty(t, s.all)
	}
	// If renewals were missed before the deletion, the Lease expires as if it had been renewed until then.
	s := &sightings{opts: opts, told: func() {}, all: map[types.UID]*sighting{}}
	require.Equal(t, "0-3", look(s, now.Add(-time.Hour), state("5", "0-3")))
	require.NoError(t, s.Handle(t.Context(), sharedinformer.Event[*coordinationv1.Lease]{Type: sharedinformer.Delete, Object: state("5", "0-3"), FinalStateUnknown: true}))
	require.Equal(t, "0-7", look(s, now.Add(time.Second)), "and it may have claimed any slot since")
	require.Empty(t, look(s, now.Add(time.Minute)))
	// Removing and restoring the label is not a deletion.
	s = &sightings{opts: opts, told: func() {}, all: map[types.UID]*sighting{}}
	look(s, now, state("5", "0-3"))
	require.NoError(t, s.Handle(t.Context(), sharedinformer.Event[*coordinationv1.Lease]{Type: sharedinformer.Delete, Object: state("6", "0-3")}))
	require.NoError(t, s.Handle(t.Context(), sharedinformer.Event[*coordinationv1.Lease]{Type: sharedinformer.Add, Object: state("8", "0-3")}))
	require.Equal(t, "0-3", look(s, now, state("8", "0-3")))
	require.Equal(t, "0-3", look(s, now.Add(time.Minute)), "the cache is ahead of the handler")
}

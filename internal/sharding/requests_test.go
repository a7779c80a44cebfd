package sharding

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/source"
)

// If several requests with a selector fail, one is sent without it. Once one is accepted, all later
// ones have it.
func TestSelectorThatBreaksRequestsIsOmitted(t *testing.T) {
	r := &Requests{Ownership: New(shard.Scope{Key: shard.ByUID()}, Hooks{})}
	half := shard.NewSlots(2, 1)
	for range 3 {
		for range maxUnanswered {
			selection, shown := r.ask(half)
			require.NotEmpty(t, selection.Selector)
			require.NotNil(t, shown)
		}
		selection, shown := r.ask(half)
		require.Empty(t, selection.Selector)
		require.Nil(t, shown)
	}
	for range 3 * maxUnanswered {
		selection, _ := r.ask(half)
		require.NotEmpty(t, selection.Selector)
		selection.Tell(source.SelectionNotTold)
	}
}

// Received objects show which side selects: one object that was not asked for, or enough objects that
// were. A list that claims more than it delivers is not trusted.
func TestReceivedObjectsShowWhichSideSelects(t *testing.T) {
	r := &Requests{Ownership: New(shard.Scope{Key: shard.ByUID()}, Hooks{})}
	by := r.Selection
	_, shown := r.ask(shard.NewSlots(4, 1)) // two heads each
	for range 9 {
		shown(true)
	}
	require.Equal(t, shard.SelectionUnknown, by())
	shown(true)
	require.Equal(t, shard.SelectionByServer, by())
	shown(false)
	require.Equal(t, shard.SelectionByClient, by())
	for range 99 {
		shown(true)
	}
	require.Equal(t, shard.SelectionByClient, by())
	selection, shown := r.ask(shard.NewSlots(4, 1))
	require.Equal(t, shard.SelectionByClient, by(), "until something shows the opposite")
	selection.Tell(source.SelectedByServer)
	require.Equal(t, shard.SelectionByServer, by())
	shown(false)
	selection.Tell(source.SelectedByServer)
	require.Equal(t, shard.SelectionByClient, by())
	selection, _ = r.ask(shard.NewSlots(4))
	require.NotEmpty(t, selection.Selector, "of no slots")
	selection, shown = r.ask(shard.AllSlots(4))
	require.Empty(t, selection.Selector)
	require.Nil(t, shown)
}

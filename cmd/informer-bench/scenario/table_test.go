package scenario

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
)

// TestScenariosAreInOrder checks that the contestants know the scenarios of the table.
func TestScenariosAreInOrder(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range All() {
		require.False(t, seen[s.Name], s.Name)
		seen[s.Name] = true
		require.NotEmpty(t, s.Measures, s.Name)
		require.True(t, slices.Contains(s.Contestants, results.Millrace) || slices.Contains(s.Contestants, results.MillracePacked), s.Name)
		require.NotEmpty(t, s.Group, s.Name)
		require.Contains(t, s.Contestants, s.Peer(), s.Name)
		for _, j := range s.Jobs(100) {
			require.Positive(t, j.Objects, s.Name)
			require.NotContains(t, j.Params, scale)
			require.NotContains(t, j.Params, changedPercent)
			require.NotContains(t, j.Params, configMapPercent)
			if s.Script == Watch || s.Script == Reconcile {
				require.Positive(t, j.Params[Events], s.Name)
			}
		}
	}
	for _, name := range Following() {
		require.True(t, seen[name], name)
	}
	for _, s := range All() {
		for _, c := range s.Contestants {
			require.Contains(t, Contestants(), c, s.Name)
		}
	}
	_, err := Choose([]string{"no-such"})
	require.ErrorContains(t, err, "no-such")
}

func TestGroupsAndNamesAreChosenInTheOrderOfTheList(t *testing.T) {
	chosen, err := Choose([]string{"million", "controllers", "cached-read"})
	require.NoError(t, err)
	var names []string
	for _, s := range chosen {
		names = append(names, s.Name)
	}
	require.Equal(t, []string{"reconcile", "manager", "cached-read", "million"}, names)
	for _, s := range All() {
		require.NotEqual(t, s.Group, s.Name, "a name could mean two things")
	}
}

func TestPercentagesBecomeNumbers(t *testing.T) {
	limit, err := Choose([]string{"limit"})
	require.NoError(t, err)
	jobs := limit[0].Jobs(DefaultObjects)
	require.Len(t, jobs, 1)
	require.Equal(t, 20_000, jobs[0].Objects)
	require.Equal(t, protocol.Params{ConfigMaps: 5_000}, jobs[0].Params)
	require.Equal(t, 3, jobs[0].Lists(), "Pods twice, ConfigMaps once")
}

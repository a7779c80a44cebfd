package simulation

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// Only the steps needed for the failure remain: two of all steps, in order, with one informer and
// the number of one of the steps.
func TestShrinkKeepsTheNecessarySteps(t *testing.T) {
	s := Draw(3)
	for n := range s.Steps {
		s.Steps[n].Do = "put"
	}
	s.Steps[4] = Step{Do: "compact", Who: 7, N: 40}
	s.Steps[9] = Step{Do: "restart", Who: 7, N: 40}
	s.World.Informers = []Form{{Of: Widgets}, {Of: Kept}, {Of: Pods}}
	asked := 0
	small := Shrink(s, func(s Schedule) bool {
		asked++
		compacted := false
		for _, step := range s.Steps {
			compacted = compacted || step.Do == "compact" && step.N >= 10
			if compacted && step.Do == "restart" && len(s.World.Informers) > 0 {
				return true
			}
		}
		return false
	})
	require.Len(t, small.Steps, 2)
	require.Equal(t, Step{Wait: small.Steps[0].Wait, Do: "compact", N: 10}, small.Steps[0])
	require.Equal(t, Deed("restart"), small.Steps[1].Do)
	require.Zero(t, small.Steps[1].Who+small.Steps[1].N)
	require.Len(t, small.World.Informers, 1)
	require.Zero(t, small.World.Objects)
	require.Less(t, asked, 300)
}

func TestAScheduleIsPlainData(t *testing.T) {
	for seed := range uint64(50) {
		s := Draw(seed)
		text, err := json.Marshal(s)
		require.NoError(t, err)
		var back Schedule
		require.NoError(t, json.Unmarshal(text, &back))
		require.Equal(t, s, back)
		require.Equal(t, s, Draw(seed))
	}
}

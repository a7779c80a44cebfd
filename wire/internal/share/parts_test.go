package share

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// However much is in use at once, the table's own memory is bounded, and when
// all is gone it counts nothing.
func TestW03_TheTableOfPartsIsBounded(t *testing.T) {
	t.Parallel()
	if raceDetector {
		t.Skip("a million parts from one goroutine: without the race detector only")
	}
	table := newParts()
	all := make([]part, 2*lastSlots)
	for i := range all {
		all[i].hash = uint64(i) << 32
		table.add(&all[i])
	}
	require.Len(t, *table.slots.Load(), lastSlots)
	require.LessOrEqual(t, table.len.Load(), int64(lastSlots))
	for i := range all {
		table.remove(&all[i])
	}
	require.Zero(t, table.len.Load())
}

// Under any series of additions and removals the table counts what it holds,
// holds what was added last under a hash or nothing, and never anything else.
func TestW03_TheTableOfPartsEqualsAMap(t *testing.T) {
	const seed = 20261120
	random := rand.New(rand.NewPCG(seed, 4))
	table := newParts()
	last := make(map[uint64]*part)
	var added []*part
	for step := range 50_000 {
		if random.IntN(3) > 0 || len(added) == 0 {
			made := &part{hash: random.Uint64N(4096) << 34} // of which some share their places
			table.add(made)
			last[made.hash], added = made, append(added, made)
		} else {
			at := random.IntN(len(added))
			gone := added[at]
			added[at] = added[len(added)-1]
			added = added[:len(added)-1]
			table.remove(gone)
			if last[gone.hash] == gone {
				delete(last, gone.hash)
			}
		}
		hash := random.Uint64N(4096) << 34
		if found := table.find(hash); found != nil && found != last[hash] {
			t.Fatalf("seed %d, step %d: a part that was replaced or removed is found", seed, step)
		}
	}
	held := 0
	slots := *table.slots.Load()
	for i := range slots {
		if slots[i].part.Load() != nil {
			held++
		}
	}
	require.Equal(t, int64(held), table.len.Load())
	require.Greater(t, held, len(last)/2)
	for _, p := range added {
		table.remove(p)
	}
	require.Zero(t, table.len.Load())
}

package workqueue

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// A table and a map go through the same random steps. The hashes are few, so
// that chains are long and items leave from their beginning, middle and end.
func TestTableBehavesLikeAMap(t *testing.T) {
	for _, hashes := range []int{1, 7, 1 << 30} {
		rng := rand.New(rand.NewPCG(4, uint64(hashes)))
		table, model := newTable[int](), map[int]*item[int]{}
		hash := func(key int) uint64 { return uint64(key * 7919 % hashes) }
		for range 20_000 {
			key := rng.IntN(300)
			found := table.find(key, hash(key))
			require.Same(t, model[key], found)
			if found != nil {
				table.remove(found)
				delete(model, key)
			} else {
				it := &item[int]{key: key, hash: hash(key)}
				table.insert(it)
				model[key] = it
			}
			require.Equal(t, len(model), table.len)
		}
		require.GreaterOrEqual(t, len(table.chains), 128, "it grows with its items")
		require.LessOrEqual(t, len(table.chains), 512, "and no further")
	}
}

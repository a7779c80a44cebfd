package laws

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/test/apiserver"
)

func TestL01_OneObjectInTheOrderOfItsChanges(t *testing.T) {
	inBubble(t, apiserver.Options{}, func(r *rig) {
		i, _ := r.synced(sharedinformer.Options{})
		h := record(r, i)
		i.AddHandler(h)
		for n := range 50 {
			r.put(pod("a", "n="+string(rune('A'+n%26))+string(rune('a'+n/26))))
		}
		r.delete("a")
		r.put(pod("a"))
		log := h.heard()
		require.Len(r, log, 52)
		require.Equal(r, "add a", log[0])
		require.Equal(r, []string{"update a", "delete a", "add a"}, log[49:])
	})
}

package shard

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/object"
)

func TestSelector(t *testing.T) {
	for _, c := range []struct {
		key   Key
		slots Slots
		want  string
	}{
		{ByUID(), NewSlots(4, 0), "shardRange(object.metadata.uid,'0x0000000000000000','0x4000000000000000')"},
		{ByNamespace(), NewSlots(4, 1, 3), "shardRange(object.metadata.namespace,'0x4000000000000000','0x8000000000000000')||shardRange(object.metadata.namespace,'0xc000000000000000','0x10000000000000000')"},
		{ByUID(), NewSlots(3, 1), "shardRange(object.metadata.uid,'0x5555555555555556','0xaaaaaaaaaaaaaaab')"},
		{ByUID(), NewSlots(4), "shardRange(object.metadata.uid,'0x0000000000000000','0x0000000000000001')"},
		{ByUID(), Slots{}, "shardRange(object.metadata.uid,'0x0000000000000000','0x0000000000000001')"},
		{ByUID(), AllSlots(4), ""},
		{ByOwner(), NewSlots(4, 0), ""},
		{ByLabel("uid"), NewSlots(4, 0), ""},
		{ByFunc("uid", func(o object.Head) string { return o.GetName() }), NewSlots(4, 0), ""},
	} {
		require.Equal(t, c.want, c.key.Selector(c.slots), "%s %s", c.key, c.slots)
	}
	var odd []int
	for slot := 1; slot < 1024; slot += 2 {
		odd = append(odd, slot)
	}
	require.Equal(t, maxRanges, strings.Count(ByUID().Selector(NewSlots(1024, odd...)), "shardRange"), "the longest of the default is sent")
	require.Empty(t, ByUID().Selector(NewSlots(1026, append(odd, 1025)...)))
}

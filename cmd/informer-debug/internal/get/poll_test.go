package get

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/object"
)

// Changes are found even if there was no event, or if they were brief.
func TestPollFindsChangesWithoutEvents(t *testing.T) {
	var got []string
	p := &poll{known: map[object.Key]item{}, send: func(c rowChange) bool {
		got = append(got, c.event+" "+c.item.head.UID+" "+c.item.head.RV)
		return true
	}}
	key := object.Key{Name: "x"}
	now := func(uid, rv string) *item { return itemPointer(uid, rv) }
	for _, one := range []*item{nil, now("a", "1"), now("a", "1"), now("a", "2"), now("b", "3"), nil, nil, now("c", "4")} {
		p.is(key, one)
	}
	require.Equal(t, []string{"ADDED a 1", "MODIFIED a 2", "DELETED a 2", "ADDED b 3", "DELETED b 3", "ADDED c 4"}, got)
}

func itemPointer(uid, rv string) *item {
	var o item
	o.head.UID, o.head.RV = uid, rv
	return &o
}

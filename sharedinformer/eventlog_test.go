package sharedinformer

import (
	"runtime"
	"testing"
	"weak"

	"github.com/stretchr/testify/require"
)

// Segments that every cursor has passed are garbage, including the last one.
func TestThePassedLogIsGarbage(t *testing.T) {
	log := newLog()
	c := newCursor(log)
	passed := func() weak.Pointer[segment] {
		s := &segment{events: make([]event, 3)}
		log.append(s)
		events, _ := c.next()
		require.Len(t, events, 3)
		events, mark := c.next()
		require.Nil(t, events)
		require.Nil(t, mark)
		return weak.Make(s)
	}()
	runtime.GC()
	require.Nil(t, passed.Value())
	log.append(&segment{synced: true})
	_, mark := c.next()
	require.True(t, mark.synced)
	runtime.KeepAlive(log)
}

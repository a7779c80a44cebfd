package hostile

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// failures is a testing.TB that records failures instead of failing.
type failures struct {
	testing.TB
	said []string
}

func (f *failures) Helper() {}

func (f *failures) Errorf(format string, args ...any) {
	f.said = append(f.said, fmt.Sprintf(format, args...))
}

var sink []byte

func TestABudgetIsOfMemoryAndTime(t *testing.T) {
	b := Budget{Memory: 1 << 20, MemoryPerByte: 10, Time: time.Second / slowness, TimePerByte: time.Millisecond / slowness}
	for name, c := range map[string]struct {
		n    int
		read func()
		bad  bool
	}{
		"little":                  {0, func() {}, false},
		"too much memory":         {0, func() { sink = make([]byte, 2<<20) }, true},
		"memory for a long input": {1 << 20, func() { sink = make([]byte, 2<<20) }, false},
		"too much time":           {0, func() { time.Sleep(1100 * time.Millisecond) }, true},
		"time for a long input":   {1000, func() { time.Sleep(1100 * time.Millisecond) }, false},
	} {
		said := &failures{TB: t}
		b.Within(said, c.n, c.read)
		require.Equal(t, c.bad, len(said.said) == 1, "%s: %v", name, said.said)
	}
	once := true
	b.Within(t, 0, func() {
		if once {
			sink = make([]byte, 2<<20)
		}
		once = false
	})
}

func TestRetainedMemoryIsFound(t *testing.T) {
	var k Kept
	var held [][]byte
	for range looks {
		k.Nothing(t)
	}
	for range looks {
		sink = make([]byte, mayGrow/looks*2)
		k.Nothing(t)
	}
	said := &failures{TB: t}
	for range looks {
		held = append(held, make([]byte, mayGrow/looks*2))
		k.Nothing(said)
	}
	require.Len(t, said.said, 1)
	require.Contains(t, said.said[0], "bytes are live")
	require.Len(t, held, looks)
	held = nil
	stop := make(chan struct{})
	ended := make(chan struct{})
	go func() { defer close(ended); <-stop }()
	said = &failures{TB: t}
	for range looks {
		k.Nothing(said)
	}
	close(stop)
	<-ended
	require.Len(t, said.said, 1)
	require.Contains(t, said.said[0], "goroutines")
}

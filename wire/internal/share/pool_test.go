package share

import (
	"fmt"
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// A hash is a hint: bytes and type have to agree too.
func TestW03_HashesMayCollide(t *testing.T) {
	pool := NewPool()
	const hash = 42
	one, other := newPartKind(), newPartKind()
	a, b := new([8]string), new([8]string)
	pool.remember(one, hash, []byte("bytes of a"), unsafe.Pointer(a), 1, 0, 0)

	known := pool.lookup(one, hash, []byte("bytes of a"))
	require.Equal(t, unsafe.Pointer(a), known.at)
	require.Equal(t, 1, known.n)
	for _, miss := range []struct {
		unit *partKind
		raw  string
	}{{one, "bytes of b"}, {one, "bytes of "}, {one, "bytes of a "}, {one, ""}, {other, "bytes of a"}} {
		require.Zero(t, pool.lookup(miss.unit, hash, []byte(miss.raw)), miss.raw)
	}

	// The later one takes the place, and does not lose it when the first is gone.
	pool.remember(one, hash, []byte("bytes of b"), unsafe.Pointer(b), 1, 0, 0)
	require.Zero(t, pool.lookup(one, hash, []byte("bytes of a")))
	gone := make(chan struct{})
	runtime.AddCleanup(a, func(gone chan struct{}) { close(gone) }, gone)
	a = nil
	require.True(t, collectUntil(func() bool {
		select {
		case <-gone:
			return true
		default:
			return false
		}
	}))
	require.Equal(t, unsafe.Pointer(b), pool.lookup(one, hash, []byte("bytes of b")).at)
	runtime.KeepAlive(b)
	requireForgotten(t, pool)
}

// The table of parts counts what it holds while it grows and shrinks, and is
// small again when nothing is in use.
func TestW03_TheTableOfPartsShrinks(t *testing.T) {
	pool := NewPool()
	kind, parts := newPartKind(), 100_000
	var used [][]byte
	for i := range parts {
		raw, own := fmt.Appendf(nil, "part number %d", i), make([]byte, 32)
		used = append(used, own)
		pool.remember(kind, pool.hash(kind, raw), raw, unsafe.Pointer(unsafe.SliceData(own)), 1, len(raw), 0)
	}
	require.Greater(t, len(*pool.parts.slots.Load()), parts)
	runtime.KeepAlive(used)
	used = nil
	requireForgotten(t, pool)
	require.LessOrEqual(t, len(*pool.parts.slots.Load()), 16*firstSlots)
}

// A part that was being decoded while the pool forgot is not found.
func TestW03_PartsBeingDecodedAreForgottenToo(t *testing.T) {
	pool := NewPool()
	raw := []byte("a part that is being decoded")
	unit := newPartKind()
	hash := pool.hash(unit, raw)
	pool.Forget()
	at := new([8]string)
	pool.remember(unit, hash, raw, unsafe.Pointer(at), 1, 0, 0)
	require.Zero(t, pool.lookup(unit, pool.hash(unit, raw), raw))
	runtime.KeepAlive(at)
}

// collectUntil collects garbage until done, and reports whether it came to that.
// Weak pointers and cleanups take a few collections.
func collectUntil(done func() bool) bool {
	for range 1000 {
		if done() {
			return true
		}
		runtime.GC()
		runtime.Gosched()
	}
	return done()
}

func requireForgotten(t *testing.T, pool *Pool) {
	t.Helper()
	if !collectUntil(func() bool { return pool.Len() == 0 }) {
		t.Errorf("%d parts are remembered and used by nobody", pool.Len())
	}
}

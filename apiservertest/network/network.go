package network

import (
	"hash/fnv"
	"io"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"
)

// Network is a set of links. Create it with [New].
type Network struct {
	seed uint64

	mu    sync.Mutex
	links int
}

// New returns a network that derives its random draws from seed.
func New(seed uint64) *Network { return &Network{seed: seed} }

// Link returns a new link with perfect conditions. Its name determines its random draws, so names should be
// unique. Its number determines its arrival offsets.
func (n *Network) Link(name string) *Link {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.links++
	return newLink(n.seed, name, n.links-1)
}

// random returns the random source for one aspect of a link.
func random(seed uint64, link, thing string, n int) *rand.Rand {
	hash := fnv.New64a()
	for _, part := range []string{link, thing, strconv.Itoa(n)} {
		_, _ = io.WriteString(hash, part+"\x00") // never fails
	}
	return rand.New(rand.NewPCG(seed, hash.Sum64()))
}

const (
	// grid is the granularity of arrival times, which are rounded up to a fixed offset in a unit of
	// the grid. slots is the number of possible offsets.
	grid  = 100 * time.Microsecond
	slots = int64(grid)

	// perLink is the number of connections per link that have offsets of their own.
	perLink = 32
)

// slotOf returns the offset, in nanoseconds, for one direction of a connection.
func slotOf(link, conn int, d Direction) time.Duration {
	return time.Duration((int64(link)*perLink*2 + int64(conn%perLink)*2 + int64(d)) % slots)
}

// align returns the first instant at offset slot that is not before t.
func align(t time.Time, slot time.Duration) time.Time {
	past := (time.Duration(t.UnixNano()) - slot) % grid
	if past <= 0 {
		return t.Add(-past)
	}
	return t.Add(grid - past)
}

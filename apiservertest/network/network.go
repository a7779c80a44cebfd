package network

import (
	"hash/fnv"
	"io"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"
)

// Network is a number of links. Make one with New.
type Network struct {
	seed uint64

	mu    sync.Mutex
	links int
}

// New makes a network. All that looks random in it follows from seed.
func New(seed uint64) *Network { return &Network{seed: seed} }

// Link makes another link, with clean conditions. Links are told apart by their
// names, which should differ, and their arrivals by the order in which they were made.
func (n *Network) Link(name string) *Link {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.links++
	return newLink(n.seed, name, n.links-1)
}

// random gives the numbers of one of the things of a link.
func random(seed uint64, link, thing string, n int) *rand.Rand {
	hash := fnv.New64a()
	for _, part := range []string{link, thing, strconv.Itoa(n)} {
		_, _ = io.WriteString(hash, part+"\x00") // it cannot fail
	}
	return rand.New(rand.NewPCG(seed, hash.Sum64()))
}

const (
	// grid is what arrivals are rounded up to, and slots how many instants there are
	// between two of its lines.
	grid  = 100 * time.Microsecond
	slots = int64(grid)

	// perLink is how many connections of a link have instants of their own.
	perLink = 32
)

// slotOf is the instant of a direction of a connection in the grid, in nanoseconds.
func slotOf(link, conn int, d Direction) time.Duration {
	return time.Duration((int64(link)*perLink*2 + int64(conn%perLink)*2 + int64(d)) % slots)
}

// align returns the first instant of a slot that is not before t.
func align(t time.Time, slot time.Duration) time.Time {
	past := (time.Duration(t.UnixNano()) - slot) % grid
	if past <= 0 {
		return t.Add(-past)
	}
	return t.Add(grid - past)
}

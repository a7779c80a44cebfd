package apiservertest

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
)

// dice draw what looks random. What is drawn depends on the seed, on the subject
// that it is drawn for, and on how often that subject has been drawn for before:
// not on what happens to others meanwhile, so that goroutines that run in
// another order draw the same. Whoever has them guards them.
type dice struct {
	seed  uint64
	kind  string
	drawn map[uint64]uint64 // by the hash of the subject: a server sees many names in its life
}

func newDice(seed uint64, kind string) *dice {
	return &dice{seed: seed, kind: kind, drawn: map[uint64]uint64{}}
}

// of returns the numbers for a subject, other ones with each call.
func (d *dice) of(subject string) *rand.Rand {
	hash := fnv.New64a()
	fmt.Fprintf(hash, "%s\x00%s\x00", d.kind, subject)
	of := hash.Sum64()
	fmt.Fprint(hash, d.drawn[of])
	d.drawn[of]++
	return rand.New(rand.NewPCG(d.seed, hash.Sum64()))
}

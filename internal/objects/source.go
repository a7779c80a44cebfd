package objects

import (
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// What the cluster consists of.
const (
	Apps       = 200
	Namespaces = 50
	Nodes      = 1000
)

// Options vary what is made. The zero value is a usual cluster.
type Options struct {
	// Hostile makes objects that have nothing in common: no string, no list
	// and no part is found in another object of the kind, beyond the words of
	// the API itself. Sizes are about the same.
	Hostile bool
}

// source is where the content of one object, or of what several have in
// common, is drawn from.
type source struct {
	r       *rand.Rand
	hostile bool
}

// newSource gives each seed, kind and index a sequence of its own.
func newSource(seed uint64, kind string, i int, hostile bool) *source {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s/%d", kind, i)
	return &source{r: rand.New(rand.NewPCG(seed, h.Sum64())), hostile: hostile}
}

// appSource is the source of what the replicas of an application share. In
// the hostile variant each object is an application of its own.
func appSource(seed uint64, kind string, i int, o Options) *source {
	if o.Hostile {
		return newSource(seed, kind+"-app", i, true)
	}
	return newSource(seed, "app", i%Apps, false)
}

// letters are those of generated names: no vowels, so that no words appear.
const letters = "bcdfghjklmnpqrstvwxz2456789"

// token is n random letters.
func (s *source) token(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = letters[s.r.IntN(len(letters))]
	}
	return string(b)
}

// hex is n random bytes as hexadecimal digits.
func (s *source) hex(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(s.r.Uint32())
	}
	return hex.EncodeToString(b)
}

// fixed is a word that everybody uses; nobody else, in the hostile variant.
func (s *source) fixed(word string) string {
	if s.hostile {
		return word + "-" + s.token(7)
	}
	return word
}

// pick is one of a few words, drawn.
func (s *source) pick(words ...string) string {
	return s.fixed(words[s.r.IntN(len(words))])
}

// number is a usual number; any of two thousand million, in the hostile variant.
func (s *source) number(usual int32) int32 {
	if s.hostile {
		return s.r.Int32()
	}
	return usual
}

// quantity is one of the usual amounts; an odd one, in the hostile variant.
func (s *source) quantity(usual ...string) resource.Quantity {
	amount := usual[s.r.IntN(len(usual))]
	if s.hostile {
		return *resource.NewQuantity(s.r.Int64N(1<<44), resource.DecimalSI)
	}
	return resource.MustParse(amount)
}

// uid is a random uid (RFC 9562, version 4).
func (s *source) uid() types.UID {
	h := s.hex(16)
	return types.UID(h[:8] + "-" + h[8:12] + "-4" + h[13:16] + "-a" + h[17:20] + "-" + h[20:])
}

// epoch is the time at which everything begins.
func epoch() time.Time { return time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC) }

// created is a time within ninety days from the beginning.
func (s *source) created() metav1.Time {
	return metav1.NewTime(epoch().Add(time.Duration(s.r.IntN(90*24*3600)) * time.Second))
}

// after is a moment shortly after t.
func after(t metav1.Time, seconds int) metav1.Time {
	return metav1.NewTime(t.Add(time.Duration(seconds) * time.Second))
}

// version is the resource version of the i-th object after n changes.
func version(i, n int) string { return fmt.Sprint((n+1)*Round + i%Round) }

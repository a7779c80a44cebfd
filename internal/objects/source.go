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

// Sizes of the simulated cluster.
const (
	Apps       = 200
	Namespaces = 50
	Nodes      = 1000
)

// Options varies the objects. The zero value describes a typical cluster.
type Options struct {
	// Hostile generates objects with nothing in common: no string, list or sub-object occurs in another
	// object of the same kind, except for the API's own vocabulary. Object sizes remain about the same.
	Hostile bool

	// Alike makes an application's pods more similar: all start in the same second, and the kubelet's entry
	// in managedFields does not contain the pod's IP. Other kinds are not affected.
	Alike bool
}

// source generates the content of an object, or the common content of several.
type source struct {
	r       *rand.Rand
	hostile bool
}

// newSource returns a source with a distinct random sequence for each seed, kind and index.
func newSource(seed uint64, kind string, i int, hostile bool) *source {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s/%d", kind, i)
	return &source{r: rand.New(rand.NewPCG(seed, h.Sum64())), hostile: hostile}
}

// appSource returns the source of the content shared by an application's replicas. In the hostile
// variant each object is its own application.
func appSource(seed uint64, kind string, i int, o Options) *source {
	if o.Hostile {
		return newSource(seed, kind+"-app", i, true)
	}
	return newSource(seed, "app", i%Apps, false)
}

// letters contains the letters used in generated names: no vowels, to avoid forming words.
const letters = "bcdfghjklmnpqrstvwxz2456789"

// token returns n random letters.
func (s *source) token(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = letters[s.r.IntN(len(letters))]
	}
	return string(b)
}

// hex returns n random bytes as hexadecimal digits.
func (s *source) hex(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(s.r.Uint32())
	}
	return hex.EncodeToString(b)
}

// fixed returns word, which all objects share, or a unique word in the hostile variant.
func (s *source) fixed(word string) string {
	if s.hostile {
		return word + "-" + s.token(7)
	}
	return word
}

// pick returns one of a few words.
func (s *source) pick(words ...string) string {
	return s.fixed(words[s.r.IntN(len(words))])
}

// number returns one of a few typical numbers, or any of two billion in the hostile variant.
func (s *source) number(usual int32) int32 {
	if s.hostile {
		return s.r.Int32()
	}
	return usual
}

// quantity returns one of a few typical quantities, or an unusual one in the hostile variant.
func (s *source) quantity(usual ...string) resource.Quantity {
	amount := usual[s.r.IntN(len(usual))]
	if s.hostile {
		return *resource.NewQuantity(s.r.Int64N(1<<44), resource.DecimalSI)
	}
	return resource.MustParse(amount)
}

// uid returns a random UID (RFC 9562, version 4).
func (s *source) uid() types.UID {
	h := s.hex(16)
	return types.UID(h[:8] + "-" + h[8:12] + "-4" + h[13:16] + "-a" + h[17:20] + "-" + h[20:])
}

// epoch returns the time at which the simulation starts.
func epoch() time.Time { return time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC) }

// created returns a time within ninety days after epoch.
func (s *source) created() metav1.Time {
	return metav1.NewTime(epoch().Add(time.Duration(s.r.IntN(90*24*3600)) * time.Second))
}

// after returns a time shortly after t.
func after(t metav1.Time, seconds int) metav1.Time {
	return metav1.NewTime(t.Add(time.Duration(seconds) * time.Second))
}

// version returns the resource version of the i-th object after n changes.
func version(i, n int) string { return fmt.Sprint((n+1)*Round + i%Round) }

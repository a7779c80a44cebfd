package scenario

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"runtime"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
)

// Reads are the ways to read a cache of Pods that is synced, as the users of a contestant
// read it: what is a copy there is one here.
type Reads struct {
	// Keys are those of all Pods.
	Keys []types.NamespacedName

	Get func(key types.NamespacedName) (*corev1.Pod, error)

	// Shelf goes through the Pods of a shelf, by an index of ShelfOf.
	Shelf func(shelf string) (int, error)
}

// shelfSize is how many Pods a shelf has, about.
const shelfSize = 1000

// ShelfOf puts Pods on shelves of a thousand, siblings as far from each other as others.
func ShelfOf(p *corev1.Pod, all int) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(p.Name)) // a hash takes everything
	return strconv.Itoa(int(h.Sum32()) % max(1, all/shelfSize))
}

// Measure reads in each way for Params.Millis and takes the time of one Get: of objects
// that are in use, since somebody holds them, and of such as nobody has looked at for long;
// and the time for a thousand objects of an index.
func (r Reads) Measure(s *protocol.Session) (*protocol.Result, error) {
	if len(r.Keys) != s.Objects {
		return nil, fmt.Errorf("the cache has %d objects, want %d", len(r.Keys), s.Objects)
	}
	random := rand.New(rand.NewPCG(s.Seed, 0))
	random.Shuffle(len(r.Keys), func(i, k int) { r.Keys[i], r.Keys[k] = r.Keys[k], r.Keys[i] })
	var held [lookedUp]*corev1.Pod
	for i := range held {
		var err error
		if held[i], err = r.Get(r.Keys[i%len(r.Keys)]); err != nil {
			return nil, err
		}
	}
	protocol.HeapInUse() // from here on nobody looks at the others
	if err := s.Mark(protocol.MarkBegin); err != nil {
		return nil, err
	}
	m := map[string]float64{}
	span := time.Duration(s.Params[Millis]) * time.Millisecond
	var err error
	if m[results.GetUsed], err = each(span, 100, func(i int) error { return r.get(i % len(held)) }); err != nil {
		return nil, err
	}
	if m[results.GetOther], err = each(span, 100, func(i int) error { return r.get(i % len(r.Keys)) }); err != nil {
		return nil, err
	}
	runtime.KeepAlive(held)
	if m[results.Thousand], err = r.thousand(span); err != nil {
		return nil, err
	}
	return &protocol.Result{Metrics: m}, s.Mark(protocol.MarkDone)
}

// thousand goes through one shelf after the other and returns the seconds for a thousand
// of the Pods that it finds.
func (r Reads) thousand(span time.Duration) (float64, error) {
	shelves, lookups, found := max(1, len(r.Keys)/shelfSize), 0, 0
	one, err := each(span, 1, func(i int) error {
		n, err := r.Shelf(strconv.Itoa(i % shelves))
		found, lookups = found+n, lookups+1
		return err
	})
	if err == nil && found == 0 {
		err = fmt.Errorf("the index has nothing on its shelves")
	}
	if err != nil {
		return 0, err
	}
	return one * float64(lookups) / float64(found) * shelfSize, nil
}

func (r Reads) get(i int) error {
	p, err := r.Get(r.Keys[i])
	if err == nil && p.Name != r.Keys[i].Name {
		err = fmt.Errorf("got %s", p.Name)
	}
	if err != nil {
		return fmt.Errorf("get %s: %w", r.Keys[i], err)
	}
	return nil
}

// each calls a read again and again, i counting from 0, and returns the seconds that one
// took. The clock is asked after each batch of them.
func each(span time.Duration, batch int, read func(i int) error) (float64, error) {
	began, reads := time.Now(), 0
	for reads == 0 || time.Since(began) < span {
		for range batch {
			if err := read(reads); err != nil {
				return 0, err
			}
			reads++
		}
	}
	return time.Since(began).Seconds() / float64(reads), nil
}

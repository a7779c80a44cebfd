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

// Reads contains a function for each way of reading a synced cache of Pods. The functions return copies if
// that is the contestant's behavior.
type Reads struct {
	// Keys are the keys of all Pods.
	Keys []types.NamespacedName

	Get func(key types.NamespacedName) (*corev1.Pod, error)

	// Shelf visits the Pods on a shelf, through an index on ShelfOf.
	Shelf func(shelf string) (int, error)
}

// shelfSize is the approximate number of Pods on a shelf.
const shelfSize = 1000

// ShelfOf distributes Pods over shelves of about a thousand, regardless of their owners.
func ShelfOf(p *corev1.Pod, all int) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(p.Name)) // a hash never fails
	return strconv.Itoa(int(h.Sum32()) % max(1, all/shelfSize))
}

// Measure spends Params.Millis on each kind of read. It measures a Get of objects that are in use because
// something refers to them, a Get of objects that have not been read for a long time, and reading a thousand
// objects through an index.
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
	protocol.HeapInUse() // from here on, the other objects are not read
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

// thousand reads shelf after shelf and returns the seconds per thousand Pods.
func (r Reads) thousand(span time.Duration) (float64, error) {
	shelves, lookups, found := max(1, len(r.Keys)/shelfSize), 0, 0
	one, err := each(span, 1, func(i int) error {
		n, err := r.Shelf(strconv.Itoa(i % shelves))
		found, lookups = found+n, lookups+1
		return err
	})
	if err == nil && found == 0 {
		err = fmt.Errorf("the index has no Pods on its shelves")
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

// each calls read repeatedly, with i counting up from 0, and returns the seconds per call. It checks the
// clock once per batch.
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

package simulation

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"

	"github.com/millrace-dev/millrace/object"
)

// transform is a function through which all objects of an informer go before they are cached. It
// changes them in place, and now and then fails.
type transform[T object.Object] struct {
	member *member[T]

	mu     sync.Mutex // guards random: each feed calls
	random *rand.Rand
}

// marking is the annotation that the transform leaves in every object.
const marking = "transformed"

// errTransform is told of a failure that was planned.
var errTransform = fmt.Errorf("transform: %w", errPlanned)

func newTransform[T object.Object](m *member[T]) *transform[T] {
	return &transform[T]{member: m, random: rand.New(rand.NewPCG(m.play.Seed, uint64(len(m.play.members))+3))}
}

// call transforms one object.
func (t *transform[T]) call(o T) (T, error) {
	annotations := o.GetAnnotations()
	if annotations[marking] != "" {
		t.member.play.breaks("L16: %s is given %s to transform, which has been transformed", t.member.called, object.KeyOf(o))
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[marking] = "once"
	o.SetAnnotations(annotations)
	var none T
	if t.member.play.healed.Load() {
		return o, nil
	}
	switch t.draw(300) {
	case 0:
		return o, errTransform
	case 1:
		return none, nil
	case 2:
		panic(errPlanned)
	case 3:
		runtime.Goexit()
	case 4:
		o.SetName("another")
	}
	return o, nil
}

func (t *transform[T]) draw(n int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.random.IntN(n)
}

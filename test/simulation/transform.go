package simulation

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-dev/millrace/object"
)

// transform is an informer's transform. It changes objects in place. Sometimes it fails, or takes longer than
// the longest silence allowed to a server.
type transform[T object.Object] struct {
	member *member[T]

	mu     sync.Mutex // guards random, since several feeds may call the transform
	random *rand.Rand

	blocks  atomic.Int64 // blocking calls
	blocked atomic.Int64 // end of the last blocking call, in nanoseconds since 1970; 0 means never
}

// marking is the annotation that the transform adds to every object.
const marking = "transformed"

// errTransform is an injected failure.
var errTransform = fmt.Errorf("transform: %w", errPlanned)

func newTransform[T object.Object](m *member[T]) *transform[T] {
	return &transform[T]{member: m, random: rand.New(rand.NewPCG(m.play.Seed, uint64(len(m.play.members))+3))}
}

// call transforms one object.
func (t *transform[T]) call(o T) (T, error) {
	annotations := o.GetAnnotations()
	if annotations[marking] != "" {
		t.member.play.breaks("L16: %s was passed %s to transform, which has already been transformed", t.member.called, object.KeyOf(o))
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
	case 5:
		t.block()
	}
	return o, nil
}

func (t *transform[T]) draw(n int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.random.IntN(n)
}

// block blocks for longer than a server may be silent, and checks that the status reports the call. With
// several feeds, the calling feed may have been removed in the meantime.
func (t *transform[T]) block() {
	t.blocks.Add(1)
	defer t.blocks.Add(-1)
	time.Sleep(70*time.Second + time.Duration(t.draw(30))*time.Second)
	if st := t.member.Status().Reflector; t.member.pace.single && !strings.Contains(st.Waiting, "the transform") {
		t.member.play.breaks("L22: %s was waiting for its transform but reports that it is %s and waiting for %q", t.member.called, st.State, st.Waiting)
	}
	t.blocked.Store(time.Now().UnixNano())
}

// blocking reports whether a call is currently blocking. A nil transform never blocks.
func (t *transform[T]) blocking() bool { return t != nil && t.blocks.Load() > 0 }

// blockedUntil returns the end of the last blocking call, or zero.
func (t *transform[T]) blockedUntil() (until time.Time) {
	if t != nil && t.blocked.Load() != 0 {
		until = time.Unix(0, t.blocked.Load())
	}
	return until
}

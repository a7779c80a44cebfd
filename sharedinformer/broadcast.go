package sharedinformer

import "sync"

// broadcaster wakes everything that waits for a change of anything. It costs
// next to nothing while nobody does.
type broadcaster struct {
	mu      sync.Mutex // guards waiting; nothing is called while it is held
	waiting chan struct{}
}

// next returns a channel that is closed by the next broadcast. Take it first,
// then look whether what is waited for has already come.
func (b *broadcaster) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting == nil {
		b.waiting = make(chan struct{})
	}
	return b.waiting
}

func (b *broadcaster) broadcast() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting != nil {
		close(b.waiting)
		b.waiting = nil
	}
}

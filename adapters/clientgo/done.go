package clientgo

import "sync"

// done is an event that happens once. It implements cache.DoneChecker.
type done struct {
	name string
	once sync.Once
	ch   chan struct{}
}

func newDone(name string) *done { return &done{name: name, ch: make(chan struct{})} }

// Name returns the event's name.
func (d *done) Name() string { return d.name }

// Done returns a channel that is closed when the event has happened.
func (d *done) Done() <-chan struct{} { return d.ch }

func (d *done) happened() { d.once.Do(func() { close(d.ch) }) }

func (d *done) has() bool {
	select {
	case <-d.ch:
		return true
	default:
		return false
	}
}

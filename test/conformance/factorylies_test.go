package conformance_test

import (
	"context"

	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/test/conformance"
)

// Some lies of factories.
type (
	manyInformers struct {
		*informers
		more []*informers
	}
	startsNothing struct{ *informers }
	keepsBorrowed struct{ *informers }
	endsBorrowed  struct {
		*informers
		giveBack []func()
	}
)

func (m *manyInformers) Informer() (conformance.Informer, error) {
	another := &informers{factory.New(m.client, factory.Options{}), m.client}
	m.more = append(m.more, another)
	return another.Informer()
}

func (m *manyInformers) Start(ctx context.Context) {
	for _, f := range m.more {
		f.Start(ctx)
	}
}

func (m *manyInformers) Wait() {
	for _, f := range m.more {
		f.Wait()
	}
}

func (startsNothing) Start(context.Context) {}

func (k keepsBorrowed) Borrow() (conformance.Informer, func()) {
	i, _ := k.informers.Borrow()
	return i, func() {}
}

func (e *endsBorrowed) Borrow() (conformance.Informer, func()) {
	i, giveBack := e.informers.Borrow()
	e.giveBack = append(e.giveBack, giveBack)
	return i, func() {
		for _, giveBack := range e.giveBack {
			giveBack()
		}
	}
}

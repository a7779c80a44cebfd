package controller

import (
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// gate is the predicates of a source. It is told of heads, and opens them if it must.
type gate[T object.Object] struct {
	heads []HeadPredicate[T]
	rest  []Predicate[T]
	open  func(sharedinformer.Event[object.Head]) (sharedinformer.Event[T], error)
}

func newGate[T object.Object](i *sharedinformer.Informer[T], predicates []Predicate[T]) *gate[T] {
	heads, rest := sorted(predicates)
	return &gate[T]{heads, rest, i.OpenEvent}
}

// admits reports whether an event passes. What cannot be judged passes, and is a failure of
// the source. Where a predicate ends the goroutine, otherwise is called.
func (g *gate[T]) admits(in *Inbox, e sharedinformer.Event[object.Head], otherwise func()) (pass bool) {
	if len(g.heads)+len(g.rest) == 0 {
		return true
	}
	var err error
	defer func() {
		if err != nil {
			in.Failed(err)
			pass = true
		}
	}()
	guard := failure.Guard{In: "predicate"}
	defer guard.End(&err, func(exited error) {
		in.Failed(exited)
		otherwise()
	})
	pass, err = g.passes(e)
	guard.Returned()
	return pass
}

func (g *gate[T]) passes(e sharedinformer.Event[object.Head]) (bool, error) {
	for _, pass := range g.heads {
		if !pass(e) {
			return false, nil
		}
	}
	if len(g.rest) == 0 {
		return true, nil
	}
	told, err := g.open(e)
	if err != nil {
		return false, err
	}
	for _, p := range g.rest {
		if !p.Pass(told) {
			return false, nil
		}
	}
	return true, nil
}

package controller

import (
	"cmp"
	"fmt"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// gate is the predicates of a source, which are asked about heads. The zero gate admits all.
type gate struct {
	heads  []func(sharedinformer.Event[object.Head]) bool
	rest   func(sharedinformer.Event[object.Head]) (bool, error) // those that need the objects; nil for none
	misuse error                                                 // why it cannot be used
}

func newGate[T object.Object](i *sharedinformer.Informer[T], predicates []Predicate[T]) gate {
	g := gate{misuse: cmp.Or(nilAmong(predicates), lacking(i, needs(predicates)))}
	heads, rest := sorted(bare(predicates))
	for _, p := range heads {
		g.heads = append(g.heads, p)
	}
	if len(rest) > 0 {
		g.rest = func(e sharedinformer.Event[object.Head]) (bool, error) { return passAll(i, e, rest) }
	}
	return g
}

// lacking says which field of some the cache of an informer does not keep, if any.
func lacking[T object.Object](i *sharedinformer.Informer[T], paths []string) error {
	for _, path := range paths {
		if i != nil && !i.Kept().Keeps(path) {
			return fmt.Errorf("a predicate compares %s, which the cache of %s does not keep, so that it would drop every update: add the field to factory.For.Keep, or leave the predicate out", path, i.Name())
		}
	}
	return nil
}

// passAll asks predicates about the objects of an event.
func passAll[T object.Object](i *sharedinformer.Informer[T], e sharedinformer.Event[object.Head], predicates []Predicate[T]) (bool, error) {
	told, err := i.OpenEvent(e)
	for n := 0; n < len(predicates) && err == nil; n++ {
		if !predicates[n].Pass(told) {
			return false, nil
		}
	}
	return err == nil, err
}

// admits reports whether an event passes. What cannot be judged passes, and is a failure of
// the source. Where a predicate ends the goroutine, otherwise is called.
func (g gate) admits(in *Inbox, e sharedinformer.Event[object.Head], otherwise func()) (pass bool) {
	if len(g.heads) == 0 && g.rest == nil {
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

func (g gate) passes(e sharedinformer.Event[object.Head]) (bool, error) {
	for _, pass := range g.heads {
		if !pass(e) {
			return false, nil
		}
	}
	if g.rest == nil {
		return true, nil
	}
	return g.rest(e)
}

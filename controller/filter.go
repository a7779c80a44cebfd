package controller

import (
	"cmp"
	"fmt"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// filter combines a source's predicates. The zero filter passes every event.
type filter struct {
	heads  []func(sharedinformer.Event[object.Head]) bool
	rest   func(sharedinformer.Event[object.Head]) (bool, error) // runs the predicates that need whole objects; nil if there are none
	misuse error                                                 // why the filter cannot be used
}

func newFilter[T object.Object](i *sharedinformer.Informer[T], predicates []Predicate[T]) filter {
	f := filter{misuse: cmp.Or(nilAmong(predicates), lacking(i, needs(predicates)))}
	heads, rest := sorted(bare(predicates))
	for _, p := range heads {
		f.heads = append(f.heads, p)
	}
	if len(rest) > 0 {
		f.rest = func(e sharedinformer.Event[object.Head]) (bool, error) { return passAll(i, e, rest) }
	}
	return f
}

// lacking returns an error if a predicate needs a field that the informer's cache does not keep.
func lacking[T object.Object](i *sharedinformer.Informer[T], paths []string) error {
	for _, path := range paths {
		if i != nil && !i.Source().Kept.Keeps(path) {
			return fmt.Errorf("a predicate compares %s, which the cache of %s does not keep, so it would drop every update: add the field to factory.For.Keep, or leave the predicate out", path, i.Name())
		}
	}
	return nil
}

// passAll unwraps an event's objects and evaluates the predicates.
func passAll[T object.Object](i *sharedinformer.Informer[T], e sharedinformer.Event[object.Head], predicates []Predicate[T]) (bool, error) {
	told, err := i.OpenEvent(e)
	for n := 0; n < len(predicates) && err == nil; n++ {
		if !predicates[n].Pass(told) {
			return false, nil
		}
	}
	return err == nil, err
}

// admits reports whether an event passes. If a predicate fails, the source reports the failure and the
// event passes. If a predicate calls runtime.Goexit, otherwise is called.
func (f filter) admits(in *Inbox, e sharedinformer.Event[object.Head], otherwise func()) (pass bool) {
	if len(f.heads) == 0 && f.rest == nil {
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
	pass, err = f.passes(e)
	guard.Returned()
	return pass
}

func (f filter) passes(e sharedinformer.Event[object.Head]) (bool, error) {
	for _, pass := range f.heads {
		if !pass(e) {
			return false, nil
		}
	}
	if f.rest == nil {
		return true, nil
	}
	return f.rest(e)
}

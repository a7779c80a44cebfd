package replicaset

import (
	"cmp"
	"sync"
)

// slowStart calls do n times: first once, then in concurrent batches of doubling size. It stops after a
// batch with a failure and returns the first error. So if nothing can be created, for example because of
// a quota, only one call fails instead of n.
func slowStart(n int, do func() error) error {
	for size := 1; n > 0; size *= 2 {
		errs := make([]error, min(size, n))
		var round sync.WaitGroup
		for i := range errs {
			round.Go(func() { errs[i] = do() })
		}
		round.Wait()
		if err := cmp.Or(errs...); err != nil {
			return err
		}
		n -= len(errs)
	}
	return nil
}

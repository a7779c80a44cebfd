package replicaset

import (
	"cmp"
	"sync"
)

// slowStart calls do n times: once, then in rounds of doubling size, whose calls run concurrently. It stops
// after a round with a failure and returns the first one. So if nothing can be created, for example because
// of a quota, one call finds out instead of n.
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

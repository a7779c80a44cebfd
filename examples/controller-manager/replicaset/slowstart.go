package replicaset

import (
	"cmp"
	"sync"
)

// slowStart calls do n times: once, then in rounds of twice as many calls at the same
// time, each round after the one before. After a round with a failure there is no
// other, so that where nothing can be created, as over a quota, one call finds it out
// and not n. It returns the first failure of that round.
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

package rest

import (
	"math/rand/v2"
	"net/http"
	"time"
)

const (
	maxTries     = 10
	maxRetryWait = 30 * time.Second // for all tries together
)

// patience is what is left of the will to try a call again. A call is tried
// again only after 429 or 503 with a Retry-After: the server then says that it
// has not begun with it. Everything else is for the caller to judge.
type patience struct {
	tries  int
	waited time.Duration
}

// next returns how long to wait before the next try, or false if there is to be
// none. Up to a quarter is added to what the server asked for, because it asks
// many at once.
func (p *patience) next(r *refusal) (time.Duration, bool) {
	if !r.asked || r.code != http.StatusTooManyRequests && r.code != http.StatusServiceUnavailable {
		return 0, false
	}
	p.tries++
	wait := r.after + time.Duration(rand.Float64()*float64(r.after)/4)
	p.waited += wait
	if p.tries >= maxTries || p.waited > maxRetryWait {
		return 0, false
	}
	return wait, true
}

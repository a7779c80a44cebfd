package rest

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/millrace-dev/millrace/internal/jitter"
)

const (
	maxTries     = 10
	minRetryWait = 100 * time.Millisecond // also where the server asks for none
	maxRetryWait = 30 * time.Second       // for all tries together
)

// repeat says after which answers a request may be sent again, if the server
// asks for that with a Retry-After. Everything else is for the caller to judge.
type repeat uint8

const (
	// By default it is sent again after 429: the server says that it has not begun
	// with the request. That is safe for every verb.
	_ repeat = iota
	// idempotent is sent again after 5xx too, which a proxy may answer when the
	// server has done its work: sending it twice does the same as sending it once.
	// A GET is also sent again, once, if its connection breaks before the answer.
	idempotent
	// once is never sent again. Its caller has a back-off of its own.
	once
)

func (r repeat) after(code int) bool {
	if code == http.StatusTooManyRequests {
		return r != once
	}
	return code >= 500 && r == idempotent
}

// disconnected reports whether err says that a connection broke. A server or a load balancer that
// restarts breaks those on which it owes an answer.
func disconnected(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || utilnet.IsConnectionReset(err) ||
		strings.Contains(err.Error(), "http: server closed idle connection") // which has no type
}

// patience is what is left of the will to try a call again.
type patience struct {
	tries  int
	waited time.Duration
	recall *jitter.Recall // of a client that is answered from a recording
}

// next returns how long to wait before the next try, or false if there is to be
// none. Up to a quarter is added to what the server asked for, because it asks
// many at once.
func (p *patience) next(r *refusal) (time.Duration, bool) {
	if !r.asked {
		return 0, false
	}
	p.tries++
	after := max(min(r.after, maxRetryWait+1), minRetryWait) // a date may be centuries away
	wait := after + p.recall.Below(after, after/4)
	p.waited += wait
	if p.tries >= maxTries || p.waited > maxRetryWait {
		return 0, false
	}
	return wait, true
}

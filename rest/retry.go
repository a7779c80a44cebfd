package rest

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/millrace-dev/millrace/internal/jitter"
)

const (
	maxTries     = 10
	minRetryWait = 100 * time.Millisecond // minimum delay, even if the server asks for a shorter one
	maxRetryWait = 30 * time.Second       // limit for all attempts combined
)

// repeat determines whether a request is retried after a response with a Retry-After. The caller handles
// all other failures.
type repeat uint8

const (
	// By default, requests are retried after 429, which means that the server has not started to process the
	// request. That is safe for every verb.
	_ repeat = iota
	// idempotent requests are also retried after 5xx, which a proxy may send even though the server has
	// processed the request. A GET is also retried once if its connection breaks before the response.
	idempotent
	// once means that a request is never retried, because the caller backs off.
	once
)

func (r repeat) after(code int) bool {
	if code == http.StatusTooManyRequests {
		return r != once
	}
	return code >= 500 && r == idempotent
}

// disconnected reports whether err means that a connection broke. Servers and load balancers close
// connections with pending responses when they restart.
func disconnected(err error) bool {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || utilnet.IsConnectionReset(err) {
		return true
	}
	untyped := []string{"http: server closed idle connection", "http2: server sent GOAWAY", "http2: client connection lost", brokenOff}
	return slices.ContainsFunc(untyped, func(text string) bool { return strings.Contains(err.Error(), text) })
}

// patience counts the retries of one call.
type patience struct {
	tries  int
	waited time.Duration
	recall *jitter.Recall // set if the client is replaying a recording
}

// next returns how long to wait before the next attempt, or false if there is none. It extends the server's
// delay by up to a quarter, because the server sends the same delay to many clients.
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

package simulation

import (
	"maps"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// manners is a client's transport. It checks that the client does not retry before the server allows it
// (L19).
type manners struct {
	play   *play
	called string
	hasty  bool // nothing to check, since the client may send identical requests concurrently
	next   http.RoundTripper

	mu    sync.Mutex // guards the fields below
	until map[request]time.Time
}

// request identifies a request and its retries.
type request struct{ method, path string }

// RoundTrip implements [http.RoundTripper].
func (m *manners) RoundTrip(r *http.Request) (*http.Response, error) {
	of := request{r.Method, r.URL.Path}
	m.mu.Lock()
	early := time.Until(m.until[of])
	m.mu.Unlock()
	if early > 0 && !m.hasty && r.Method != http.MethodPost { // several creates may be concurrent
		m.play.breaks("L19: %s retried %s %s %s before the server allows it", m.called, r.Method, r.URL.Path, early)
	}
	answer, err := m.next.RoundTrip(r)
	if err != nil || answer.StatusCode < http.StatusBadRequest {
		return answer, err
	}
	if seconds, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil {
		m.mu.Lock()
		m.until[of] = time.Now().Add(time.Duration(seconds) * time.Second)
		m.mu.Unlock()
	}
	return answer, nil
}

// allow lets the client send its next request to path immediately.
func (m *manners) allow(path string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.until, func(of request, _ time.Time) bool { return of.path == path })
}

// forget lets a new run send requests immediately.
func (m *manners) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.until)
}

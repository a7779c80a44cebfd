package simulation

import (
	"maps"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// manners is the transport of a client that must not come back before a server wants it
// to (L19).
type manners struct {
	play   *play
	called string
	hasty  bool // several may ask for the same at a time, so that nothing can be said
	next   http.RoundTripper

	mu    sync.Mutex // guards what follows
	until map[request]time.Time
}

// request is what is asked for again.
type request struct{ method, path string }

// RoundTrip implements http.RoundTripper.
func (m *manners) RoundTrip(r *http.Request) (*http.Response, error) {
	of := request{r.Method, r.URL.Path}
	m.mu.Lock()
	early := time.Until(m.until[of])
	m.mu.Unlock()
	if early > 0 && !m.hasty && r.Method != http.MethodPost { // several may create at a time
		m.play.breaks("L19: %s asks for %s %s again, %s before the server wants it to", m.called, r.Method, r.URL.Path, early)
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

// allow lets a new request of path be sent at once.
func (m *manners) allow(path string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.until, func(of request, _ time.Time) bool { return of.path == path })
}

// forget lets a new run ask at once.
func (m *manners) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.until)
}

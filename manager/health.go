package manager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/millrace-dev/millrace/failure"
)

// Check is one question of a health or readiness probe. It returns nil, or why
// not. It is called for each request, and must honour the request's context. One
// that panics has failed, and so has one that does not answer within 5 seconds; it is
// not called again before it has returned.
type Check func(*http.Request) error

// Ping is a Check that always succeeds: the process answers.
func Ping(*http.Request) error { return nil }

// checkPatience is how long a probe waits for a check.
const checkPatience = 5 * time.Second

// checks answers a probe. Its paths are those of the API server: the prefix for
// all checks, prefix/name for one of them, ?exclude=name to leave some out, and
// ?verbose to list them also when all is well.
type checks struct {
	prefix string
	logger *slog.Logger

	mu    sync.Mutex // guards named
	named map[string]*question
}

func newChecks(prefix string, logger *slog.Logger) *checks {
	return &checks{prefix: prefix, logger: logger, named: map[string]*question{}}
}

// question is a check and what came of it.
type question struct {
	check Check

	mu      sync.Mutex // guards all below; nothing is called while it is held
	calls   int        // that have not returned
	since   time.Time  // when one was found not to answer; zero if none was
	failing string     // why it failed the last time; empty if it did not
}

func (c *checks) add(name string, check Check) error {
	if check == nil {
		return fmt.Errorf("check %q for %s is nil", name, c.prefix)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, taken := c.named[name]; taken || name == "" || strings.Contains(name, "/") {
		return fmt.Errorf("a check named %q for %s: want a name without slash that no other check has", name, c.prefix)
	}
	c.named[name] = &question{check: check}
	return nil
}

// ServeHTTP answers with reasons.
func (c *checks) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.answer(w, r, true) }

// answer answers a probe. Reasons name objects and quote the API server: without
// them, the answer says which check failed.
func (c *checks) answer(w http.ResponseWriter, r *http.Request, reasons bool) {
	c.mu.Lock()
	named := maps.Clone(c.named)
	c.mu.Unlock()
	query := r.URL.Query()
	for _, name := range query["exclude"] {
		delete(named, name)
	}
	if one := strings.Trim(strings.TrimPrefix(r.URL.Path, c.prefix), "/"); one != "" {
		q, known := named[one]
		if !known {
			http.NotFound(w, r)
			return
		}
		named = map[string]*question{one: q}
	}
	answers := c.ask(r, named)
	var all strings.Builder
	code := http.StatusOK
	for _, name := range slices.Sorted(maps.Keys(named)) {
		switch err := answers[name]; {
		case err == nil:
			fmt.Fprintf(&all, "[+] %s: ok\n", name)
			continue
		case reasons:
			fmt.Fprintf(&all, "[-] %s: %v\n", name, err)
		default:
			fmt.Fprintf(&all, "[-] %s: failed\n", name)
		}
		code = http.StatusInternalServerError
	}
	if _, verbose := query["verbose"]; code == http.StatusOK && !verbose {
		all.Reset()
		all.WriteString("ok\n")
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	// The client may have gone.
	_, _ = w.Write([]byte(all.String()))
}

// ask asks all at once, and tells the logger what has begun to fail.
func (c *checks) ask(r *http.Request, named map[string]*question) map[string]error {
	ctx, cancel := context.WithTimeout(r.Context(), checkPatience)
	defer cancel()
	r = r.WithContext(ctx)
	var mu sync.Mutex // guards answers
	var asked sync.WaitGroup
	answers := make(map[string]error, len(named))
	for name, q := range named {
		asked.Go(func() {
			err := q.ask(r)
			if q.changed(err) {
				c.logger.Warn("a probe fails", "probe", c.prefix, "check", name, "err", err)
			}
			mu.Lock()
			defer mu.Unlock()
			answers[name] = err
		})
	}
	asked.Wait()
	return answers
}

// ask calls the check in a goroutine of its own, and gives up when the context of
// the request ends.
func (q *question) ask(r *http.Request) error {
	q.mu.Lock()
	if !q.since.IsZero() {
		defer q.mu.Unlock()
		return fmt.Errorf("the check has not answered for %s", time.Since(q.since).Round(time.Second))
	}
	q.calls++
	q.mu.Unlock()
	began, answer := time.Now(), make(chan error, 1)
	go func() {
		err := failure.Apart("check", func() error { return q.check(r) })
		answer <- err
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.calls--; q.calls == 0 {
			q.since = time.Time{}
		}
	}()
	select {
	case err := <-answer:
		return err
	case <-r.Context().Done():
	}
	select {
	case err := <-answer: // one that honours the context has a reason of its own
		return err
	case <-time.After(100 * time.Millisecond):
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.calls > 0 && q.since.IsZero() {
		q.since = began
	}
	return errors.New("the check does not answer")
}

// changed reports whether the check fails for another reason than the last time.
func (q *question) changed(err error) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	before := q.failing
	if q.failing = ""; err != nil {
		q.failing = "failing"
	}
	return before == "" && err != nil
}

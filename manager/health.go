package manager

import (
	"context"
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

// A Check is a single check of a health or readiness probe. It returns nil if healthy. Concurrent
// requests share one call, so its result must not depend on the request. It must honor the request's
// context, which is canceled after 5 seconds but not when the client disconnects. A check that panics or
// does not return in time has failed.
type Check func(*http.Request) error

// Ping is a Check that always succeeds, which shows that the process is responding.
func Ping(*http.Request) error { return nil }

const (
	// checkPatience limits the duration of a call to a check.
	checkPatience = 5 * time.Second

	// checkExcuse is the extra time allowed for a check that honors its context to return its own reason.
	checkExcuse = 100 * time.Millisecond
)

// checks serves a probe. Its paths are those of the API server: the prefix runs all checks, prefix/name
// runs a single check, ?exclude=name skips a check and may be repeated, and ?verbose lists all of them even
// if they succeed.
type checks struct {
	prefix string
	logger *slog.Logger

	mu    sync.Mutex // guards named
	named map[string]*question
}

func newChecks(prefix string, logger *slog.Logger) *checks {
	return &checks{prefix: prefix, logger: logger, named: map[string]*question{}}
}

// question is a check and its state.
type question struct {
	check Check
	slow  func() string // lists work in a healthy program that is slow, or returns ""; may be nil

	mu      sync.Mutex // guards the fields below; no other code is called while it is held
	call    *call      // the call in progress; nil if there is none
	failing bool       // the last call failed
}

// call is a single call to a check, shared by all requests that arrive in the meantime.
type call struct {
	began time.Time
	ended chan struct{}
	err   error // the result, once the call has returned
}

func (c *checks) add(name string, check Check) error {
	if check == nil {
		return fmt.Errorf("check %q for %s is nil", name, c.prefix)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, taken := c.named[name]; taken || name == "" || strings.Contains(name, "/") {
		return fmt.Errorf("a check named %q for %s: want a unique name without a slash", name, c.prefix)
	}
	c.named[name] = &question{check: check}
	return nil
}

func (c *checks) remove(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.named, name)
}

// ServeHTTP serves the probe, including reasons.
func (c *checks) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.answer(w, r, true) }

// answer serves the probe. Reasons may include object names and API server messages. Without reasons, the
// response only lists the failed checks.
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
			fmt.Fprintf(&all, "[+] %s: ok%s\n", name, named[name].said(reasons))
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
	// The client may have disconnected.
	_, _ = w.Write([]byte(all.String()))
}

// ask runs all checks concurrently and logs the ones that have just started to fail.
func (c *checks) ask(r *http.Request, named map[string]*question) map[string]error {
	var mu sync.Mutex // guards answers
	var asked sync.WaitGroup
	answers := make(map[string]error, len(named))
	for name, q := range named {
		asked.Go(func() {
			err := q.ask(r)
			if q.changed(err) {
				c.logger.Warn("probe failed", "probe", c.prefix, "check", name, "err", err)
			}
			mu.Lock()
			defer mu.Unlock()
			answers[name] = err
		})
	}
	asked.Wait()
	return answers
}

// ask waits up to checkPatience for a call to the check, even if the client disconnects.
func (q *question) ask(r *http.Request) error {
	c := q.calling(r)
	late := time.NewTimer(time.Until(c.began.Add(checkPatience + checkExcuse)))
	defer late.Stop()
	select {
	case <-c.ended:
		return c.err
	case <-late.C:
		return fmt.Errorf("the check has not returned for %s", time.Since(c.began).Round(time.Second))
	}
}

// calling returns the call in progress, or starts one.
func (q *question) calling(r *http.Request) *call {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.call != nil {
		return q.call
	}
	c := &call{began: time.Now(), ended: make(chan struct{})}
	q.call = c
	go func() {
		// Do not cancel the call with the request, because others share it.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), checkPatience)
		defer cancel()
		c.err = failure.Apart("check", func() error { return q.check(r.WithContext(ctx)) })
		q.mu.Lock()
		defer q.mu.Unlock()
		q.call = nil
		close(c.ended)
	}()
	return c
}

// said returns the text that follows a check's ok.
func (q *question) said(reasons bool) string {
	if !reasons || q.slow == nil {
		return ""
	}
	if slow := q.slow(); slow != "" {
		return ", but slow: " + slow
	}
	return ""
}

// changed records the result and reports whether the check has just started to fail.
func (q *question) changed(err error) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	before := q.failing
	q.failing = err != nil
	return q.failing && !before
}

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

// Check is one question of a health or readiness probe. It returns nil, or why
// not. A request has it called, and all that come until it has returned share what it
// says: it must not depend on whose the request is. It must honour the request's
// context, which ends after 5 seconds, and not where the caller hangs up. One that
// panics has failed, and so has one that does not answer in that time.
type Check func(*http.Request) error

// Ping is a Check that always succeeds: the process answers.
func Ping(*http.Request) error { return nil }

const (
	// checkPatience is how long a check may take.
	checkPatience = 5 * time.Second

	// checkExcuse is for one that honours its context, and has a reason of its own.
	checkExcuse = 100 * time.Millisecond
)

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
	slow  func() string // what takes long although the check succeeds; nil or empty for nothing

	mu      sync.Mutex // guards all below; nothing is called while it is held
	call    *call      // the one that has not returned; nil if there is none
	failing bool       // whether it failed the last time
}

// call is one call of a check, for everybody who asks while it lasts.
type call struct {
	began time.Time
	ended chan struct{}
	err   error // what came of it, once it has ended
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
	// The client may have gone.
	_, _ = w.Write([]byte(all.String()))
}

// ask asks all at once, and tells the logger what has begun to fail.
func (c *checks) ask(r *http.Request, named map[string]*question) map[string]error {
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

// ask waits for a call of the check, as long as a check may take, also where the caller has
// hung up.
func (q *question) ask(r *http.Request) error {
	c := q.calling(r)
	late := time.NewTimer(time.Until(c.began.Add(checkPatience + checkExcuse)))
	defer late.Stop()
	select {
	case <-c.ended:
		return c.err
	case <-late.C:
		return fmt.Errorf("the check has not answered for %s", time.Since(c.began).Round(time.Second))
	}
}

// calling returns the call that has not returned, or a new one in a goroutine of its own.
func (q *question) calling(r *http.Request) *call {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.call != nil {
		return q.call
	}
	c := &call{began: time.Now(), ended: make(chan struct{})}
	q.call = c
	go func() {
		// Others wait for it, too.
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

// said is what follows the ok of a check.
func (q *question) said(reasons bool) string {
	if !reasons || q.slow == nil {
		return ""
	}
	if slow := q.slow(); slow != "" {
		return ", but slow: " + slow
	}
	return ""
}

// changed reports whether the check has begun to fail.
func (q *question) changed(err error) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	before := q.failing
	q.failing = err != nil
	return q.failing && !before
}

package manager

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// Check is one question of a health or readiness probe. It returns nil, or the reason
// why not. It is called for each request, by several goroutines at once, and must
// honour the request's context.
type Check func(*http.Request) error

// Ping is a Check that always succeeds: the process answers.
func Ping(*http.Request) error { return nil }

// checks answers a probe. Its paths are those of the API server: the prefix for
// all checks, prefix/name for one of them, ?exclude=name to leave some out, and
// ?verbose to list them also when all is well.
type checks struct {
	prefix string

	mu    sync.Mutex // guards named
	named map[string]Check
}

func (c *checks) add(name string, check Check) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, taken := c.named[name]; taken || name == "" || strings.Contains(name, "/") {
		return fmt.Errorf("a check named %q for %s: want a name without slash that no other check has", name, c.prefix)
	}
	c.named[name] = check
	return nil
}

func (c *checks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	named := maps.Clone(c.named)
	c.mu.Unlock()
	query := r.URL.Query()
	for _, name := range query["exclude"] {
		delete(named, name)
	}
	if one := strings.Trim(strings.TrimPrefix(r.URL.Path, c.prefix), "/"); one != "" {
		check, known := named[one]
		if !known {
			http.NotFound(w, r)
			return
		}
		named = map[string]Check{one: check}
	}
	var all strings.Builder
	code := http.StatusOK
	for _, name := range slices.Sorted(maps.Keys(named)) {
		if err := named[name](r); err != nil {
			code = http.StatusInternalServerError
			fmt.Fprintf(&all, "[-] %s: %v\n", name, err)
		} else {
			fmt.Fprintf(&all, "[+] %s: ok\n", name)
		}
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

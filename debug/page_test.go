package debug_test

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/debug"
)

func asked(h http.Handler, method, target string) *http.Response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, target, nil))
	return w.Result()
}

// The page runs and loads only files of its own server. Its data is never parsed as
// HTML: the files do not use such functions, and the policy forbids them.
func TestPageIsSelfContained(t *testing.T) {
	process := debug.New(debug.Options{})
	for name, shown := range map[string]http.Handler{"process": process, "relay": process.Client().Handler()} {
		t.Run(name, func(t *testing.T) {
			files := []string{""}
			require.NoError(t, fs.WalkDir(os.DirFS("."), "page", func(name string, d fs.DirEntry, err error) error {
				if !d.IsDir() {
					files = append(files, name)
				}
				return err
			}))
			require.Greater(t, len(files), 5)
			for _, file := range files {
				r := asked(shown, http.MethodGet, debug.Path+file)
				require.Equal(t, http.StatusOK, r.StatusCode, file)
				policy := r.Header.Get("Content-Security-Policy")
				for _, part := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'", "require-trusted-types-for 'script'"} {
					require.Contains(t, strings.Split(policy, "; "), part, file)
				}
				require.NotContains(t, policy, "unsafe")
				require.Equal(t, "nosniff", r.Header.Get("X-Content-Type-Options"))
				require.NotEmpty(t, r.Header.Get("Content-Type"))
			}
			require.Equal(t, "text/html; charset=utf-8", asked(shown, http.MethodGet, debug.Path).Header.Get("Content-Type"))
			require.Equal(t, "text/javascript; charset=utf-8", asked(shown, http.MethodGet, debug.Path+"page/app.js").Header.Get("Content-Type"))
			for _, other := range []string{"page/", "page/none.js", "page/..%2fpage.go", "page/%2e%2e", "index.html"} {
				require.Equal(t, http.StatusNotFound, asked(shown, http.MethodGet, debug.Path+other).StatusCode, other)
			}
			require.Equal(t, http.StatusMethodNotAllowed, asked(shown, http.MethodPost, debug.Path).StatusCode)
		})
	}
}

func TestThePageParsesNothing(t *testing.T) {
	files, err := os.ReadDir("page")
	require.NoError(t, err)
	parsers := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|setHTML|\beval\(|new Function|javascript:|\son[a-z]+=|style=|https?://[^w]`)
	for _, file := range files {
		text, err := os.ReadFile(path.Join("page", file.Name()))
		require.NoError(t, err)
		require.NotRegexp(t, parsers, string(text), file.Name())
	}
}

// Pages of other origins get nothing and cannot open streams. Links to the page work.
func TestForeignWebPagesAreRefused(t *testing.T) {
	process := debug.New(debug.Options{})
	for name, handler := range map[string]http.Handler{"process": process, "relay": process.Client().Handler()} {
		for _, c := range []struct {
			path, site string
			code       int
		}{
			{"v1/status", "", http.StatusOK}, // not a browser
			{"v1/status", "none", http.StatusOK},
			{"v1/status", "same-origin", http.StatusOK},
			{"v1/status", "same-site", http.StatusForbidden}, // such as another port of localhost
			{"v1/status", "cross-site", http.StatusForbidden},
			{"v1/events", "cross-site", http.StatusForbidden},
			{"v1/recording", "cross-site", http.StatusForbidden},
			{"", "cross-site", http.StatusOK},
		} {
			w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, debug.Path+c.path, nil)
			if c.site != "" {
				r.Header.Set("Sec-Fetch-Site", c.site)
			}
			handler.ServeHTTP(w, r)
			require.Equal(t, c.code, w.Code, "%s: %s from %s", name, c.path, c.site)
		}
	}
}

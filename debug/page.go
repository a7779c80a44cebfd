package debug

import (
	"embed"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

// pageFiles contains the page and the files it loads. The page requests only these and version 1 of the
// protocol.
//
//go:embed page
var pageFiles embed.FS

// pagePolicy restricts the page to its own scripts and its own server. Browsers that support trusted types
// refuse to parse data as HTML, so it can only be rendered as text.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// forms maps file extensions to content types, whatever the system's MIME configuration.
var forms = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// addPage registers handlers for the page at Path and its files below. All other requests get an error
// that lists the valid paths.
func addPage(mux *http.ServeMux) {
	mux.HandleFunc(Path+"{$}", func(w http.ResponseWriter, r *http.Request) { servePage(w, r, "index.html") })
	mux.HandleFunc(Path+"page/{file}", func(w http.ResponseWriter, r *http.Request) { servePage(w, r, r.PathValue("file")) })
	mux.HandleFunc(Path, nothing)
}

func servePage(w http.ResponseWriter, r *http.Request, name string) {
	text, err := fs.ReadFile(pageFiles, path.Join("page", path.Base(name)))
	if err != nil {
		nothing(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Type", forms[path.Ext(name)])
	_, _ = w.Write(text) // ignore the error: the client may have disconnected
}

func nothing(w http.ResponseWriter, r *http.Request) {
	http.Error(w, fmt.Sprintf("There is no %s. See the page at %s; programs can query %sv1/status.", clipped(r.URL.Path), Path, Path), http.StatusNotFound)
}

// foreign reports whether a query is a cross-origin request from a browser. Another site's page could not
// read the response, but it could occupy all streams. Browsers send Sec-Fetch-Site over HTTPS and to loopback
// addresses. Links to the page itself are allowed from anywhere.
func foreign(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site != "" && site != "same-origin" && site != "none" && strings.HasPrefix(r.URL.Path, Path+"v1/")
}

// mark is the header that distinguishes a Millrace process from other servers that send JSON. Its value
// is the protocol version.
const (
	mark     = "Millrace-Debug"
	protocol = "v1"
)

// readOnly allows only GET and HEAD, rejects cross-origin queries, and prevents browsers from executing or
// caching responses.
func readOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", "default-src 'none'")
		h.Set(mark, protocol)
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "This server is read-only: use GET.", http.StatusMethodNotAllowed)
			return
		}
		if foreign(r) {
			http.Error(w, "Cross-origin queries are not allowed. This process's own page is at "+Path+".", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

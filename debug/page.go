package debug

import (
	"embed"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

// pageFiles holds the page and its files. The page requests only these and version 1 of
// the protocol.
//
//go:embed page
var pageFiles embed.FS

// pagePolicy lets the page run only its own files and query only its own server. Its data can only
// become text, because browsers with trusted types refuse to parse it.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// forms maps extensions to content types, independently of the machine's configuration.
var forms = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// addPage serves the page at Path and the page's files below it, and answers other requests with a list
// of the valid paths.
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
	_, _ = w.Write(text) // ignored: the client may have disconnected
}

func nothing(w http.ResponseWriter, r *http.Request) {
	http.Error(w, fmt.Sprintf("There is no %s. A page is at %s; programs ask for %sv1/status.", clipped(r.URL.Path), Path, Path), http.StatusNotFound)
}

// foreign reports whether a browser sent a query from a page of another origin. Such a page cannot read
// the response but could occupy all streams. Browsers send the header over https and to the loopback
// interface. Links to the page are allowed from anywhere.
func foreign(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site != "" && site != "same-origin" && site != "none" && strings.HasPrefix(r.URL.Path, Path+"v1/")
}

// mark is the header that distinguishes a process from other servers that send JSON.
// Its value is the protocol version.
const (
	mark     = "Millrace-Debug"
	protocol = "v1"
)

// readOnly accepts only GET and HEAD, rejects queries from pages of other origins, and
// keeps browsers from running or storing responses.
func readOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", "default-src 'none'")
		h.Set(mark, protocol)
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "This only shows: ask with GET.", http.StatusMethodNotAllowed)
			return
		}
		if foreign(r) {
			http.Error(w, "A page of another origin may not ask. The page of this process is at "+Path+".", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

package debug

import (
	"embed"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

// pageFiles are the page and what it is made of. It asks for nothing but these and the
// answers of version 1.
//
//go:embed page
var pageFiles embed.FS

// pagePolicy lets the page run its own files, ask its own server, and nothing else. What it
// shows can become text only: a browser that knows trusted types refuses to parse it.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// forms are the forms of the page's files. Those that the machine knows may be others.
var forms = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// addPage serves the page at Path, its files below, and tells who asks for something else
// what there is.
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
	_, _ = w.Write(text) // the client may have gone
}

func nothing(w http.ResponseWriter, r *http.Request) {
	http.Error(w, fmt.Sprintf("There is no %s. A page is at %s; programs ask for %sv1/status.", clipped(r.URL.Path), Path, Path), http.StatusNotFound)
}

// foreign reports whether a browser asks for the page of another origin, which could hold all
// places for streams and cannot read what it gets. Browsers tell where they trust the address:
// with https, and at the loopback interface. A link to the page may stand anywhere.
func foreign(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site != "" && site != "same-origin" && site != "none" && strings.HasPrefix(r.URL.Path, Path+"v1/")
}

// mark is the header by which a client knows a process from anything else that sends JSON. It has
// the version of the protocol.
const (
	mark     = "Millrace-Debug"
	protocol = "v1"
)

// readOnly answers GET and HEAD alone, no page of others, and nothing that a browser may run or
// keep.
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

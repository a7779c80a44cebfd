package page

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/serving"
)

// Of returns a handler that serves a process's page. It redirects the root path to the page.
func Of(process *debug.Client) http.Handler {
	mux := http.NewServeMux()
	mux.Handle(debug.Path, process.Handler())
	mux.Handle("/{$}", http.RedirectHandler(debug.Path, http.StatusFound))
	return mux
}

// OnlyFor protects next against DNS rebinding: it rejects requests whose Host header is not an IP
// address, "localhost" or the given name.
func OnlyFor(given string, next http.Handler) http.Handler {
	return serving.Local(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		_, err := netip.ParseAddr(strings.Trim(host, "[]"))
		if err != nil && !strings.EqualFold(host, "localhost") && !strings.EqualFold(host, given) {
			http.Error(w, "The Host header is not an address of this page: another web page may have rebound its name to this address. Open the address printed by informer-debug.", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	}))
}

package page

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/serving"
)

// Of shows a process, and leads there whoever asks for the root.
func Of(process *debug.Client) http.Handler {
	mux := http.NewServeMux()
	mux.Handle(debug.Path, process.Handler())
	mux.Handle("/{$}", http.RedirectHandler(debug.Path, http.StatusFound))
	return mux
}

// OnlyFor keeps web pages of others out, which can give a name of their own any address (DNS
// rebinding): a Host has to be an address, "localhost", or the one that was given.
func OnlyFor(given string, next http.Handler) http.Handler {
	return serving.Local(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		_, err := netip.ParseAddr(strings.Trim(host, "[]"))
		if err != nil && !strings.EqualFold(host, "localhost") && !strings.EqualFold(host, given) {
			http.Error(w, "The request asked for a host that a web page elsewhere may have given this address. Ask for the address that informer-debug has printed.", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	}))
}

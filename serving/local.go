package serving

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Local lets nobody but this machine's own programs have what is served at the loopback
// interface. A web page in a browser here is not one of them: it can give a name of its
// own the address 127.0.0.1 (DNS rebinding), and then read what is there. So a request
// that comes by the loopback interface is refused if its Host is a name other than
// "localhost". An address is no name that somebody could point here, so a proxy on this machine
// may pass on the Host that it was asked for. At other interfaces Local does nothing.
func Local(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
		if ok && at.IP.IsLoopback() && !local(r.Host) {
			w.Header().Set("X-Content-Type-Options", "nosniff")
			http.Error(w, fmt.Sprintf("This is for programs on this machine, and the request asked for the host %q, which a web page elsewhere may have given this address. Ask for http://%s instead.",
				clipped(r.Host), at), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// local reports whether a Host is the name of the loopback interface, or an address. A request
// without a Host is no browser's.
func local(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if host == "" || strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		return true
	}
	address, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	return err == nil && !address.IsUnspecified()
}

package config

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/millrace-dev/millrace/failure"
)

// authTransport adds the authentication headers to every request. If the server responds with 401, it renews
// the credential and resends the request once, provided that the body can be replayed.
//
// It does not modify a request that already has an Authorization header, and keeps existing impersonation
// headers.
type authTransport struct {
	base    *url.URL // the only server to which credentials may be sent
	headers http.Header
	source  credentialSource
	next    http.RoundTripper
	network *network
	log     *slog.Logger
	config  *Config // for concealing credentials in errors
}

func newAuthTransport(c *Config, base *url.URL, source credentialSource, next http.RoundTripper, n *network) *authTransport {
	headers := http.Header{"User-Agent": {c.UserAgent}}
	if c.UserAgent == "" {
		headers.Set("User-Agent", defaultUserAgent())
	}
	if i := &c.Impersonate; i.UserName != "" {
		headers.Set("Impersonate-User", i.UserName)
		if i.UID != "" {
			headers.Set("Impersonate-Uid", i.UID)
		}
		if len(i.Groups) > 0 {
			headers["Impersonate-Group"] = i.Groups
		}
		for key, values := range i.Extra {
			for _, v := range values {
				headers.Add("Impersonate-Extra-"+escapeHeaderKey(key), v)
			}
		}
	}
	for name, values := range headers {
		headers[name] = slices.Clip(values) // clip, because requests share the slice and may append to it
	}
	return &authTransport{base: base, headers: headers, source: source, next: next, network: n, log: c.logger(), config: c}
}

var errRefused = errors.New("the server answered 401 Unauthorized")

func (t *authTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if !sameServer(t.base, req.URL) {
		closeBody(req)
		return nil, fmt.Errorf("request to %s refused: this client has credentials for %s only", origin(req.URL), origin(t.base))
	}
	if req.Header.Get("Authorization") != "" {
		return t.send(req, credential{})
	}
	ctx := req.Context()
	cred, err := t.source.get(ctx)
	if err != nil {
		closeBody(req)
		return nil, fmt.Errorf("authenticate: %w", err)
	}
	used, _ := t.network.state()
	resp, err := t.send(req, cred)
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}

	reloaded := t.network.reload(ctx, used)
	renewed, err := t.source.renew(ctx, cred)
	if err != nil {
		_ = resp.Body.Close() // unread
		return nil, fmt.Errorf("%w, and no other credential could be obtained: %w", errRefused, err)
	}
	if !reloaded && renewed == cred {
		return resp, nil
	}
	again, ok, err := replay(req)
	if err != nil {
		_ = resp.Body.Close() // unread
		return nil, err
	}
	if !ok {
		return resp, nil
	}
	t.log.Debug("the server answered 401: trying once more with a new credential", "method", req.Method, "path", req.URL.Path)
	_ = resp.Body.Close() // unread
	return t.send(again, renewed)
}

// send adds the headers to a copy of the request, as http.RoundTripper requires, and
// rejects redirects that http.Client must not follow.
func (t *authTransport) send(req *http.Request, cred credential) (*http.Response, error) {
	req = req.Clone(req.Context())
	if req.Header == nil {
		req.Header = http.Header{}
	}
	own := impersonates(req.Header)
	for name, values := range t.headers {
		if _, set := req.Header[name]; !set && !(own && strings.HasPrefix(name, impersonatePrefix)) {
			req.Header[name] = values
		}
	}
	if cred.authorization != "" {
		req.Header.Set("Authorization", cred.authorization)
	}
	var added addedHeaders
	if t.config.WrapTransport != nil {
		req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{WroteHeaderField: added.wrote}))
	}
	resp, err := t.roundTrip(req)
	if err != nil {
		return nil, t.conceal(added.to(req), advise(err))
	}
	if err := t.refusedRedirect(req.Method, resp); err != nil {
		_ = resp.Body.Close() // unread
		return nil, t.conceal(resp.Request, err)
	}
	if resp.StatusCode != http.StatusSwitchingProtocols { // after a protocol switch the body is writable and must not be wrapped
		resp.Body = &answerBody{resp.Body, t, resp.Request}
	}
	return resp, nil
}

// addedHeaders collects a request's credentials as net/http writes them, because the user's RoundTripper
// may have added some.
type addedHeaders struct {
	mu      sync.Mutex // guards headers
	headers http.Header
}

// net/http calls wrote, possibly even after the request has failed.
func (a *addedHeaders) wrote(name string, values []string) {
	if name = http.CanonicalHeaderKey(name); name != "Authorization" && name != "Proxy-Authorization" {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.headers == nil {
		a.headers = http.Header{}
	}
	a.headers[name] = append(a.headers[name], values...)
}

// to returns a copy of req with the collected headers.
func (a *addedHeaders) to(req *http.Request) *http.Request {
	a.mu.Lock()
	defer a.mu.Unlock()
	req = req.Clone(req.Context())
	for name, values := range a.headers {
		req.Header[name] = append(req.Header[name], values...)
	}
	return req
}

// impersonatePrefix is the prefix of impersonation headers.
const impersonatePrefix = "Impersonate-"

// impersonates reports whether the request itself sets an identity to impersonate. Merging that identity
// with the Config's would produce a third one.
func impersonates(h http.Header) bool {
	for name := range h {
		if strings.HasPrefix(name, impersonatePrefix) {
			return true
		}
	}
	return false
}

// answerBody is a response body whose read errors hide the request's credentials.
type answerBody struct {
	io.ReadCloser
	auth *authTransport
	req  *http.Request
}

func (b *answerBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = b.auth.conceal(b.req, err)
	}
	return n, err
}

// conceal removes a request's credentials from an error. net/http's errors quote malformed headers and
// trailers as well as proxies' error responses, any of which may echo credentials.
func (t *authTransport) conceal(req *http.Request, err error) error {
	text := err.Error()
	if shown := t.config.Conceal(text, req); shown != text {
		return &concealed{shown, func(target error) bool { return errors.Is(err, target) }}
	}
	return err
}

// roundTrip calls the user's RoundTripper, if any, and recovers from its panics, which would
// otherwise crash the process if they happened in one of the library's goroutines.
func (t *authTransport) roundTrip(req *http.Request) (resp *http.Response, err error) {
	defer failure.Recover("Config.WrapTransport", &err)
	resp, err = t.next.RoundTrip(req)
	switch {
	case err == nil && resp == nil:
		return nil, errors.New("the RoundTripper of Config.WrapTransport returned no response, and no error")
	case err == nil && resp.Body == nil:
		resp.Body = http.NoBody
	}
	if err == nil && resp.Request == nil {
		resp.Request = req // needed to conceal the request's credentials
	}
	return resp, err
}

// advise adds advice for the user to a network error, if there is any.
func advise(err error) error {
	record, isRecord := errors.AsType[tls.RecordHeaderError](err)
	op, isOp := errors.AsType[*net.OpError](err)
	switch {
	case isOp && op.Op == "proxyconnect" && badServerCertificate(err):
		return fmt.Errorf("%w: check the proxy (proxy-url, HTTPS_PROXY): its certificate must match its name and be signed by a system authority or the server's certificate authority", err)
	case badServerCertificate(err):
		return fmt.Errorf("%w: check the server's address, the certificate authority and the expected certificate name (tls-server-name)", err)
	case isOp && op.Op == "proxyconnect":
		return fmt.Errorf("%w: check the proxy (proxy-url, HTTPS_PROXY)", err)
	case isOp && op.Op == "dial":
		return fmt.Errorf("%w: check that the API server is running and can be reached from here", err)
	case isRecord && string(record.RecordHeader[:]) == "HTTP/":
		return fmt.Errorf("%w: use http:// in the server's address, or its https port", http.ErrSchemeMismatch)
	}
	return err
}

// CloseIdleConnections implements the interface that http.Client.CloseIdleConnections
// looks for. The RoundTripper from Config.WrapTransport may have its own connections.
func (t *authTransport) CloseIdleConnections() {
	t.network.CloseIdleConnections()
	if next, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		next.CloseIdleConnections()
	}
}

// replay returns req with its body rewound. ok is false if the body cannot be rewound.
func replay(req *http.Request) (again *http.Request, ok bool, err error) {
	if req.Body == nil || req.Body == http.NoBody {
		return req, true, nil
	}
	if req.GetBody == nil {
		return nil, false, nil
	}
	body, err := req.GetBody()
	if err != nil {
		return nil, false, fmt.Errorf("send the request again: %w", err)
	}
	again = req.Clone(req.Context())
	again.Body = body
	return again, true, nil
}

// closeBody closes the request body, as a RoundTripper must if it fails before sending.
func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close() // the request failed for another reason
	}
}

// refusedRedirect returns an error if http.Client must not follow a redirect, because it leads to another
// server, which would receive the credentials, or because it turns a write into a GET, which would make a
// failed write look successful. The error omits the target's query, which may contain secrets, and any path
// that contains the credentials of resp.Request, including those added by the user's RoundTripper.
func (t *authTransport) refusedRedirect(method string, resp *http.Response) error {
	base := t.base
	if resp.StatusCode < 300 || resp.StatusCode > 399 {
		return nil
	}
	target, err := resp.Location()
	switch {
	case errors.Is(err, http.ErrNoLocation):
		return nil
	case err != nil: // err quotes the address, which may contain secrets
		return fmt.Errorf("%s redirects to an invalid address: check the server's address", origin(base))
	case within(base, target):
		if becomesGet(method, resp.StatusCode) {
			where := "another path"
			if t.config.Conceal(target.Path, resp.Request) == target.Path {
				where = fmt.Sprintf("the path %.200s", target.EscapedPath())
			}
			return fmt.Errorf("%s redirects a %s to %s with status %d, which is not followed because the client would turn it into a GET: check the server's address and path, and whether a login page intercepts requests",
				origin(base), method, where, resp.StatusCode)
		}
		return nil
	}
	if target.Host == "" || sameServer(base, target) { // omit the path, which may contain credentials
		return fmt.Errorf("%s redirects to a path that is not below %s, which is not followed because it may belong to another API server: check the server's address", origin(base), base.EscapedPath())
	}
	return fmt.Errorf("%s redirects to %s, which is not followed because the credentials are only for the former: check the server's address", origin(base), origin(target))
}

// within reports whether target belongs to the API server at base. One origin may host several API servers,
// each under its own path, as Rancher does. Paths are compared both as they are and after cleaning, since a
// proxy may clean them.
func within(base, target *url.URL) bool {
	if target.Host != "" && !sameServer(base, target) {
		return false
	}
	below := func(prefix, path string) bool { return strings.HasPrefix(path+"/", prefix+"/") }
	return below(base.EscapedPath(), target.EscapedPath()) && below(base.Path, path.Clean("/"+target.Path))
}

// becomesGet reports whether http.Client turns a redirected request with this method into a GET.
func becomesGet(method string, status int) bool {
	return method != http.MethodGet && method != http.MethodHead &&
		(status == http.StatusMovedPermanently || status == http.StatusFound || status == http.StatusSeeOther)
}

func sameServer(a, b *url.URL) bool { return origin(a) == origin(b) }

// origin returns the scheme, host and port in comparable form.
func origin(u *url.URL) string {
	scheme, port := strings.ToLower(u.Scheme), u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[scheme]
	}
	host := strings.ToLower(u.Hostname())
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return scheme + "://" + host + ":" + port
}

// escapeHeaderKey percent-encodes the percent sign and characters that are not allowed in header
// names (RFC 9110, section 5.6.2). The API server decodes it.
func escapeHeaderKey(key string) string {
	var b strings.Builder
	for _, c := range []byte(key) {
		legal := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
			slices.Contains([]byte("!#$&'*+-.^_`|~"), c)
		if legal {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

package config

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/millrace-dev/millrace/recording"
)

// Config describes an API server: its address, how to verify it and how to authenticate to it. Load creates
// one from a kubeconfig, or for the pod in which the program runs. In a Config written by hand, only Host is
// required.
//
// NewClient copies the Config, so the caller may modify and reuse it afterwards, but not while NewClient
// runs.
//
// A Config omits its secrets when printed with any verb (%v, %+v, %#v, %x), in log/slog and in JSON, so it
// cannot be stored as JSON. Package fmt cannot call methods on unexported fields, so unexported struct
// fields should be of type *Config, not Config.
//
// The Authorization header is taken from the first of these that is set: BearerTokenFile and BearerToken;
// Username and Password; Exec. It is an error to set both a token and a user name, because one of them must
// be a mistake. A client certificate may be combined with any of them; the API server checks it first.
type Config struct {
	// Host is the server's URL, such as https://10.0.0.1:6443. If it has a path, the path
	// is prepended to the path of every request. Without a scheme, https is used if any
	// field of TLS is set, and http otherwise.
	Host string

	// Namespace is the default namespace: the kubeconfig context's or the pod's. Load always sets it.
	Namespace string

	TLS TLS

	// BearerToken is the token to authenticate with. If BearerTokenFile is also set, BearerToken is used only
	// until the file has been read for the first time.
	BearerToken string
	// BearerTokenFile is a file containing a token that is replaced regularly, such as a projected service
	// account token. It is reread if the last read was more than a minute ago, and immediately after a 401
	// from the server.
	BearerTokenFile string

	// Username and Password are used for HTTP basic authentication.
	Username string
	Password string

	// Exec is a program that provides credentials.
	Exec *Exec

	// Impersonate is the identity to impersonate, if the server permits it.
	Impersonate Impersonation

	// ProxyURL is the proxy for all requests, with scheme http, https or socks5. If it is empty,
	// HTTPS_PROXY, HTTP_PROXY and NO_PROXY apply, unless Dial is set, in which case no proxy is used. An
	// https proxy is verified by its own host name, against the system's CAs and those in TLS, and never
	// receives the client certificate.
	ProxyURL string

	// Proxy, if set, returns the proxy for each request (nil for none), and overrides ProxyURL and the
	// environment. It is also called when a client is created, and to find out the proxy's password in
	// order to conceal it in responses and errors. Exec plugins do not use it.
	Proxy func(*http.Request) (*url.URL, error)

	// Dial opens connections to the server or the proxy. Its context is canceled after 30 seconds at the
	// latest. Nil means TCP with keep-alive probes. Tests use it to connect to an in-memory server.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	// AcceptGzip requests compressed responses from the server and decompresses them as they arrive. It
	// saves bandwidth but costs CPU time, so it is off by default.
	AcceptGzip bool

	// CBOR requests objects in CBOR (KEP-4222); servers without CBOR support ignore it. It does not affect
	// how requests are encoded. CBOR is smaller than JSON, but objects are decoded by apimachinery's codec,
	// which is slower than this module's JSON and protobuf decoders and does not share equal values. In
	// k8s.io/apimachinery v0.35, that codec rejects objects with a list or map of more than 1024 entries.
	CBOR bool

	// Timeout limits the wait for each response's header. Zero means 90 seconds, which is 1.5 times the API
	// server's default limit. It does not limit the reading of bodies, so watches are not affected; use a
	// context for that. A rest.Client also applies it to the sending of each request, where zero means one
	// minute.
	Timeout time.Duration

	// UserAgent is the User-Agent header. Empty means the program's name, Millrace's
	// version and the platform.
	UserAgent string

	// FieldManager is the default owner of written fields, for calls whose options do not specify one.
	// If it is empty, the server uses the start of UserAgent.
	// https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management
	FieldManager string

	// FieldValidation determines how the server treats unknown and duplicate fields: Strict, Warn or Ignore.
	// It applies to calls whose options do not specify one. If it is empty, the server warns.
	FieldValidation string

	// Logger logs problems that do not require immediate action, such as a token file that could not be
	// reread. Nil means no logging.
	Logger *slog.Logger

	// WrapTransport, if set, is called once per client and may wrap the RoundTripper that talks to the
	// network. The wrapper sees all request headers, including the credentials.
	WrapTransport func(http.RoundTripper) http.RoundTripper

	// Recorder, if set, records the server's responses to lists and watches for replay;
	// see package recording. Several clients may share it. It never sees credentials.
	// The caller must close it.
	Recorder *recording.Recorder

	// Replay, if set, replaces the server: the client sends nothing and does not authenticate. An empty
	// Host means the recording's host. Only one client may use a Replay.
	Replay *recording.Replay
}

// Impersonation is an identity to impersonate. UID, Groups and Extra require a UserName.
// https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation
type Impersonation struct {
	UserName string
	UID      string
	Groups   []string
	Extra    map[string][]string
}

// TLS configures how to verify the server, and the client certificate to present. Each of the three PEM
// values may be specified inline or as a file, but not both. Files are reread once a minute, and immediately
// if the server's certificate is rejected or the server responds with 401. New connections use the new
// contents. Connections that presented a replaced client certificate are closed after 90 seconds, or after
// Config.Timeout if that is longer. The minimum version is TLS 1.2.
type TLS struct {
	// Insecure accepts any server certificate. Anyone on the network path can then read and modify
	// everything, including the credentials.
	Insecure bool

	// ServerName is the name to verify in the server's certificate and to send as SNI.
	// Empty means the host name of Config.Host.
	ServerName string

	// The certificate authorities trusted to sign the server's certificate. If none is set, the system's
	// CAs are used.
	CAFile string
	CAData []byte

	// The client certificate and its private key.
	CertFile string
	CertData []byte
	KeyFile  string
	KeyData  []byte
}

// Clone returns a deep copy. Functions, the logger, the recorder and the replay are
// shared.
func (c *Config) Clone() *Config {
	d := *c
	d.TLS.CAData = slices.Clone(c.TLS.CAData)
	d.TLS.CertData = slices.Clone(c.TLS.CertData)
	d.TLS.KeyData = slices.Clone(c.TLS.KeyData)
	d.Impersonate.Groups = slices.Clone(c.Impersonate.Groups)
	d.Impersonate.Extra = maps.Clone(c.Impersonate.Extra)
	for k, v := range d.Impersonate.Extra {
		d.Impersonate.Extra[k] = slices.Clone(v)
	}
	if c.Exec != nil {
		e := *c.Exec
		e.Args = slices.Clone(e.Args)
		e.Env = slices.Clone(e.Env)
		e.ClusterConfig = slices.Clone(e.ClusterConfig)
		d.Exec = &e
	}
	return &d
}

// clearCredentials removes all credentials and reports whether there were any. It keeps Impersonation,
// because without it the client would have more permissions, not fewer.
func (c *Config) clearCredentials() bool {
	t := &c.TLS
	had := c.BearerToken != "" || c.BearerTokenFile != "" || c.Username != "" || c.Exec != nil || t.CertFile != "" || len(t.CertData) > 0
	c.BearerToken, c.BearerTokenFile, c.Username, c.Password, c.Exec = "", "", "", "", nil
	t.CertFile, t.CertData, t.KeyFile, t.KeyData = "", nil, "", nil
	return had
}

// logger returns the logger, never nil.
func (c *Config) logger() *slog.Logger {
	if c.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return c.Logger
}

// validate reports all contradictions that can be detected without reading files.
func (c *Config) validate() error {
	var errs []error
	complain := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	if _, err := c.baseURL(); err != nil {
		errs = append(errs, err)
	}
	if _, err := parseProxyURL(c.ProxyURL); err != nil {
		errs = append(errs, err)
	}
	complain(c.Proxy != nil && c.ProxyURL != "", "both Proxy and ProxyURL are set: keep one")
	errs = append(errs, c.TLS.validate())

	hasToken := c.BearerToken != "" || c.BearerTokenFile != ""
	hasBasic := c.Username != "" || c.Password != ""
	complain(hasToken && hasBasic, "both a bearer token and a user name with password are set: keep one")
	complain(c.Password != "" && c.Username == "", "a password without a user name: set both or neither")
	complain(hasControl(c.BearerToken), "the bearer token contains a line break or another control character: remove it")
	complain(isContent(c.BearerTokenFile), "the token file is set to the token itself instead of a file name: write it to a file, or set it inline")
	complain(hasControl(c.UserAgent), "the user agent contains a line break or another control character: remove it")
	complain(c.Timeout < 0, "the timeout %v is negative: use zero for the default", c.Timeout)
	if c.Exec != nil {
		errs = append(errs, c.Exec.validate())
	}
	errs = append(errs, c.Impersonate.validate())
	return joinLine(errs)
}

// joinLine joins errors on a single line. It drops the error chain, because validation errors are only read
// by people.
func joinLine(errs []error) error {
	var texts []string
	for _, err := range errs {
		if err != nil {
			texts = append(texts, err.Error())
		}
	}
	if len(texts) == 0 {
		return nil
	}
	return errors.New(strings.Join(texts, "; "))
}

func (i *Impersonation) validate() error {
	if i.UserName == "" && (i.UID != "" || len(i.Groups) > 0 || len(i.Extra) > 0) {
		return errors.New("impersonation of a uid, groups or extra fields without a user name: set the user name to impersonate as well")
	}
	values := slices.Concat([]string{i.UserName, i.UID}, i.Groups, slices.Concat(slices.Collect(maps.Values(i.Extra))...))
	for _, v := range values {
		if hasControl(v) {
			return fmt.Errorf("impersonation: %q contains a control character, which is not allowed in HTTP headers", v)
		}
	}
	if _, ok := i.Extra[""]; ok {
		return errors.New("impersonation: an extra field has no name")
	}
	return nil
}

func (t *TLS) validate() error {
	var errs []error
	complain := func(bad bool, text string) {
		if bad {
			errs = append(errs, errors.New(text))
		}
	}
	for _, file := range []struct{ name, path string }{{"certificate authority", t.CAFile}, {"client certificate", t.CertFile}, {"client key", t.KeyFile}} {
		complain(isContent(file.path), "the "+file.name+" file is set to its content instead of its name: write it to a file, or set it inline")
	}
	hasCA := t.CAFile != "" || len(t.CAData) > 0
	hasCert := t.CertFile != "" || len(t.CertData) > 0
	hasKey := t.KeyFile != "" || len(t.KeyData) > 0
	complain(t.CAFile != "" && len(t.CAData) > 0, "the certificate authority is given both as a file and inline: keep one")
	complain(t.CertFile != "" && len(t.CertData) > 0, "the client certificate is given both as a file and inline: keep one")
	complain(t.KeyFile != "" && len(t.KeyData) > 0, "the client key is given both as a file and inline: keep one")
	complain(t.Insecure && hasCA, "a certificate authority is given but verification is disabled: remove the authority or verify")
	complain(hasCert && !hasKey, "a client certificate without its private key: give both or neither")
	complain(hasKey && !hasCert, "a private key without its client certificate: give both or neither")
	return joinLine(errs)
}

// isContent reports whether path is not a path but a key, a certificate or a token, plain or in base64.
// Errors quote paths, so they would leak it.
func isContent(path string) bool {
	base := filepath.Base(path)
	return strings.Contains(path, "-----BEGIN") || strings.Contains(path, "LS0tLS1CRUdJTi") ||
		strings.HasPrefix(base, "eyJ") && strings.Count(base, ".") == 2
}

func (t *TLS) empty() bool {
	return !t.Insecure && t.ServerName == "" && t.CAFile == "" && len(t.CAData) == 0 &&
		t.CertFile == "" && len(t.CertData) == 0 && t.KeyFile == "" && len(t.KeyData) == 0
}

// hasControl reports whether text contains a character that is not allowed in HTTP header values (RFC
// 9110, section 5.5).
func hasControl(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

// baseURL returns the base URL for request paths. Its path has no trailing slash.
func (c *Config) baseURL() (*url.URL, error) {
	const shape = "use the form https://host:port or https://host:port/prefix"
	host := c.Host
	if host == "" && c.Replay != nil {
		host = c.Replay.Server()
	}
	if host == "" {
		return nil, fmt.Errorf("no server is set: %s", shape)
	}
	if !strings.Contains(host, "://") {
		scheme := "https://"
		if c.TLS.empty() {
			scheme = "http://"
		}
		host = scheme + host
	}
	u, err := url.Parse(host)
	if err != nil {
		// Don't wrap url.Parse's error: it quotes the input, which may contain a password.
		return nil, fmt.Errorf("the server's address is not a URL: %s", shape)
	}
	switch {
	case u.User != nil:
		return nil, errors.New("the server's address contains a user name: remove it and set user name and password instead")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("the server's address has scheme %q: %s", u.Scheme, shape)
	case u.Hostname() == "":
		return nil, fmt.Errorf("the server's address has no host: %s", shape)
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("the server's address has a query or a fragment: %s", shape)
	}
	u.Path = strings.TrimRight(u.Path, "/")
	u.RawPath = strings.TrimRight(u.RawPath, "/")
	return u, nil
}

// parseProxyURL returns nil if text is empty.
func parseProxyURL(text string) (*url.URL, error) {
	if text == "" {
		return nil, nil
	}
	const shape = "use the form http://host:port, https://host:port or socks5://host:port"
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("the proxy's address is not a URL (not shown, it may contain a password): %s", shape)
	}
	if !slices.Contains([]string{"http", "https", "socks5", "socks5h"}, u.Scheme) || u.Hostname() == "" {
		return nil, fmt.Errorf("the proxy's address has an unknown scheme or no host (not shown, it may contain a password): %s", shape)
	}
	return u, nil
}

const modulePath = "github.com/millrace-dev/millrace"

// defaultUserAgent returns, for example,
// "informer-debug millrace/v1.2.3 (linux/amd64)".
func defaultUserAgent() string {
	agent := "millrace/" + moduleVersion() + " (" + runtime.GOOS + "/" + runtime.GOARCH + ")"
	if len(os.Args) == 0 {
		return agent
	}
	program := strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' || strings.ContainsRune(`()<>@,;:\"/[]?={}`, r) {
			return '_'
		}
		return r
	}, strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe"))
	return program + " " + agent
}

func moduleVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	modules := append([]*debug.Module{&info.Main}, info.Deps...)
	for _, m := range modules {
		if m.Path == modulePath && m.Version != "" && m.Version != "(devel)" {
			return m.Version
		}
	}
	return "devel"
}

package config

import (
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"
)

// redacted replaces secrets.
const redacted = "[redacted]"

// fieldList formats the non-zero fields of a struct as Go would print them.
type fieldList struct {
	text  strings.Builder
	count int
}

func (l *fieldList) field(name, value string) {
	if l.count > 0 {
		l.text.WriteString(", ")
	}
	l.count++
	l.text.WriteString(name + ":" + value)
}

func (l *fieldList) str(name, value string) {
	if value != "" {
		l.field(name, fmt.Sprintf("%q", value))
	}
}

// file adds a file name, unless path is really the content of such a file.
func (l *fieldList) file(name, path string) {
	if isContent(path) {
		l.field(name, redacted)
		return
	}
	l.str(name, path)
}

func (l *fieldList) secret(name string, set bool) {
	if set {
		l.field(name, redacted)
	}
}

func (l *fieldList) flag(name string, set bool) {
	if set {
		l.field(name, "true")
	}
}

// nested adds the text of a nested struct, unless it is empty.
func (l *fieldList) nested(name, value string) {
	if value != "{}" {
		l.field(name, value)
	}
}

func (l *fieldList) String() string { return "{" + l.text.String() + "}" }

// redactURL removes the password and the query from a URL. If text contains an @ but is not a URL, it
// returns a placeholder, because any part of it may be secret.
func redactURL(text string) string {
	if !strings.Contains(text, "@") {
		if i := strings.IndexAny(text, "?#"); i >= 0 {
			return text[:i+1] + redacted
		}
		return text
	}
	u, err := url.Parse(text)
	if err != nil || u.User == nil {
		return redacted
	}
	return u.Scheme + "://" + redacted + "@" + u.Host + u.EscapedPath()
}

// String formats the configuration without its secrets.
func (c Config) String() string {
	var l fieldList
	l.str("Host", redactURL(c.Host))
	l.str("Namespace", c.Namespace)
	l.nested("TLS", c.TLS.String())
	l.secret("BearerToken", c.BearerToken != "")
	l.file("BearerTokenFile", c.BearerTokenFile)
	l.str("Username", c.Username)
	l.secret("Password", c.Password != "")
	if c.Exec != nil {
		l.nested("Exec", c.Exec.String())
	}
	l.nested("Impersonate", c.Impersonate.describe())
	l.str("ProxyURL", redactURL(c.ProxyURL))
	l.flag("Proxy", c.Proxy != nil)
	l.flag("Dial", c.Dial != nil)
	l.flag("AcceptGzip", c.AcceptGzip)
	if c.Timeout != 0 {
		l.field("Timeout", c.Timeout.String())
	}
	l.str("UserAgent", c.UserAgent)
	l.str("FieldManager", c.FieldManager)
	l.str("FieldValidation", c.FieldValidation)
	l.flag("Logger", c.Logger != nil)
	l.flag("WrapTransport", c.WrapTransport != nil)
	l.flag("Recorder", c.Recorder != nil)
	l.flag("Replay", c.Replay != nil)
	return l.String()
}

// GoString is String with the type's name, for %#v.
func (c Config) GoString() string { return "config.Config" + c.String() }

// Format implements fmt.Formatter, so that no verb can print the secrets.
func (c Config) Format(f fmt.State, verb rune) { formatRedacted(f, verb, c) }

// MarshalText returns String, for JSON and other text encodings.
func (c Config) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// LogValue implements slog.LogValuer.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

func (i Impersonation) describe() string {
	var l fieldList
	l.str("UserName", i.UserName)
	l.str("UID", i.UID)
	if len(i.Groups) > 0 {
		l.field("Groups", fmt.Sprintf("%q", i.Groups))
	}
	if len(i.Extra) > 0 {
		l.field("Extra", fmt.Sprintf("%q", i.Extra))
	}
	return l.String()
}

// String formats the settings without the private key.
func (t TLS) String() string {
	var l fieldList
	l.flag("Insecure", t.Insecure)
	l.str("ServerName", t.ServerName)
	l.file("CAFile", t.CAFile)
	if len(t.CAData) > 0 {
		l.field("CAData", fmt.Sprintf("(%d bytes)", len(t.CAData)))
	}
	l.file("CertFile", t.CertFile)
	if len(t.CertData) > 0 {
		l.field("CertData", fmt.Sprintf("(%d bytes)", len(t.CertData)))
	}
	l.file("KeyFile", t.KeyFile)
	l.secret("KeyData", len(t.KeyData) > 0)
	return l.String()
}

// GoString is String with the type's name, for %#v.
func (t TLS) GoString() string { return "config.TLS" + t.String() }

// Format implements fmt.Formatter, so that no verb can print the private key.
func (t TLS) Format(f fmt.State, verb rune) { formatRedacted(f, verb, t) }

// MarshalText returns String, for JSON and other text encodings.
func (t TLS) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// LogValue implements slog.LogValuer.
func (t TLS) LogValue() slog.Value { return slog.StringValue(t.String()) }

// String formats the plugin without its arguments and the values of its environment variables, which may be
// secret.
func (e Exec) String() string {
	var l fieldList
	l.str("Command", e.Command)
	l.secret("Args", len(e.Args) > 0)
	if len(e.Env) > 0 {
		names := make([]string, len(e.Env))
		for i, pair := range e.Env {
			name, _, ok := strings.Cut(pair, "=")
			if !ok {
				name = redacted // the entire entry may be a value
			}
			names[i] = name
		}
		l.field("Env", fmt.Sprintf("%q", names))
	}
	l.str("APIVersion", e.APIVersion)
	l.str("InteractiveMode", string(e.InteractiveMode))
	l.flag("ProvideClusterInfo", e.ProvideClusterInfo)
	l.secret("ClusterConfig", len(e.ClusterConfig) > 0)
	return l.String()
}

// GoString is String with the type's name, for %#v.
func (e Exec) GoString() string { return "config.Exec" + e.String() }

// Format implements fmt.Formatter, so that no verb can print the secrets.
func (e Exec) Format(f fmt.State, verb rune) { formatRedacted(f, verb, e) }

// MarshalText returns String, for JSON and other text encodings.
func (e Exec) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// LogValue implements slog.LogValuer.
func (e Exec) LogValue() slog.Value { return slog.StringValue(e.String()) }

// String formats the options without the token.
func (o LoadOptions) String() string {
	var l fieldList
	l.str("Kubeconfig", o.Kubeconfig)
	l.str("Context", o.Context)
	l.str("Cluster", o.Cluster)
	l.str("User", o.User)
	l.str("Namespace", o.Namespace)
	l.str("Server", redactURL(o.Server))
	l.str("TLSServerName", o.TLSServerName)
	l.str("CertificateAuthority", o.CertificateAuthority)
	l.flag("InsecureSkipTLSVerify", o.InsecureSkipTLSVerify)
	l.str("ProxyURL", redactURL(o.ProxyURL))
	l.secret("Token", o.Token != "")
	l.flag("Inline", o.Inline)
	l.nested("Impersonate", o.Impersonate.describe())
	return l.String()
}

// GoString is String with the type's name, for %#v.
func (o LoadOptions) GoString() string { return "config.LoadOptions" + o.String() }

// Format implements fmt.Formatter, so that no verb can print the token.
func (o LoadOptions) Format(f fmt.State, verb rune) { formatRedacted(f, verb, o) }

// MarshalText returns String, for JSON and other text encodings.
func (o LoadOptions) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// LogValue implements slog.LogValuer.
func (o LoadOptions) LogValue() slog.Value { return slog.StringValue(o.String()) }

// Format hides the credentials if a WrapTransport function prints its next RoundTripper.
func (n *network) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "config.network") }

// Format hides the credentials if the http.Client is printed.
func (t *authTransport) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "config.authTransport") }

// redactor is a type whose text representations contain no secrets.
type redactor interface {
	fmt.Stringer
	fmt.GoStringer
}

func formatRedacted(f fmt.State, verb rune, v redactor) {
	text := v.String()
	if verb == 'v' && f.Flag('#') {
		text = v.GoString()
	}
	// There is no way to report a failed write.
	_, _ = io.WriteString(f, text)
}

package config

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Conceal takes out of a text that came from a server, or from a proxy on the way to
// it, what it repeats of the credentials that it was sent: those of the
// configuration, and those in the headers of req, which may be nil. Pages for
// debugging do repeat them. A credential that was cut off is found by how it begins.
func (c *Config) Conceal(text string, req *http.Request) string {
	if text == "" {
		return text
	}
	return conceal(text, c.sent(req))
}

// sent returns the secrets that a request shows to others. The key of a certificate
// is not among them: it stays here.
func (c *Config) sent(req *http.Request) []string {
	secrets := []string{c.BearerToken, c.Password}
	if c.Password != "" {
		secrets = append(secrets, c.Username+":"+c.Password)
	}
	proxy, _ := parseProxyURL(c.ProxyURL) // without one there is no secret
	if req != nil {
		for _, name := range []string{"Authorization", "Proxy-Authorization"} {
			for _, value := range req.Header[name] {
				secrets = append(secrets, authorized(value)...)
			}
		}
		if proxy == nil && req.URL != nil {
			proxy, _ = http.ProxyFromEnvironment(req)
		}
	}
	if proxy != nil {
		secrets = append(secrets, userinfo(proxy)...)
	}
	return secrets
}

// authorized returns the secrets in the value of a header such as Authorization.
func authorized(value string) []string {
	scheme, secret, found := strings.Cut(value, " ")
	if !found {
		return []string{value}
	}
	if !strings.EqualFold(scheme, "Basic") {
		return []string{secret}
	}
	secrets := []string{secret}
	if pair, err := base64.StdEncoding.DecodeString(secret); err == nil {
		_, password, _ := strings.Cut(string(pair), ":")
		secrets = append(secrets, string(pair), password)
	}
	return secrets
}

func userinfo(u *url.URL) []string {
	password, set := u.User.Password()
	if !set {
		return nil
	}
	return []string{password, u.User.Username() + ":" + password}
}

const (
	// minSecret is how long a secret must be to be looked for: shorter ones would
	// blot out ordinary words.
	minSecret = 4

	// secretStart is how much of a secret tells it, where the rest was cut off.
	secretStart = 12
)

// conceal replaces the secrets in a text, in every spelling and whatever the case,
// and what begins like one of them.
func conceal(text string, secrets []string) string {
	var all []string
	for _, s := range secrets {
		if len(s) >= minSecret {
			all = append(all, spellings(s)...)
		}
	}
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	low := lowered(text)
	for _, s := range slices.Compact(all) {
		if secret := lowered(s); strings.Contains(low, beginning(secret)) {
			text = concealOne(text, low, secret)
			low = lowered(text)
		}
	}
	return text
}

// beginning is how much of a secret tells it.
func beginning(secret string) string { return secret[:min(len(secret), secretStart)] }

// concealOne replaces one spelling wherever it begins. low is the text, and secret the
// spelling, in lower case.
func concealOne(text, low, secret string) string {
	var b strings.Builder
	for {
		at := strings.Index(low, beginning(secret))
		if at < 0 {
			break
		}
		end := at
		for end < len(low) && end-at < len(secret) && low[end] == secret[end-at] {
			end++
		}
		b.WriteString(text[:at] + redacted)
		text, low = text[end:], low[end:]
	}
	return b.String() + text
}

// lowered makes ASCII letters small, and keeps every byte in its place.
func lowered(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// concealed is an error without what its text repeats of a credential. It is what
// the original is, and does not show it.
type concealed struct {
	text string
	is   func(target error) bool
}

func (e *concealed) Error() string { return e.text }

// Is implements the interface of errors.Is.
func (e *concealed) Is(target error) bool { return e.is(target) }

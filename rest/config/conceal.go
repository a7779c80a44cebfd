package config

import (
	"context"
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

type secretKey struct{}

// WithSecret returns a context for requests that have a secret in their bodies, such as a
// TokenReview. Conceal takes it out of texts about them.
func WithSecret(ctx context.Context, secret string) context.Context {
	return context.WithValue(ctx, secretKey{}, secret)
}

// told is a secret that is sent, and what stands before it in the open, such as a user name.
type told struct{ open, secret string }

// pair are the spellings of a user name and a password that are sent.
func pair(user, password string) []told {
	return []told{{secret: password}, {user + ":", password}}
}

// sent returns the secrets that a request shows to others. The key of a certificate
// is not among them: it stays here.
func (c *Config) sent(req *http.Request) []told {
	secrets := append(pair(c.Username, c.Password), told{secret: c.BearerToken})
	if req != nil {
		if secret, ok := req.Context().Value(secretKey{}).(string); ok {
			secrets = append(secrets, told{secret: secret})
		}
		for _, name := range []string{"Authorization", "Proxy-Authorization"} {
			for _, value := range req.Header[name] {
				secrets = append(secrets, authorized(value)...)
			}
		}
	}
	if req == nil || req.URL == nil {
		req = &http.Request{URL: new(url.URL)} // ProxyURL is for any
	}
	if choose, _ := c.proxy(); choose != nil {
		if proxy, _ := choose(req); proxy != nil { // without one there is no secret
			secrets = append(secrets, userinfo(proxy)...)
		}
	}
	return secrets
}

// authorized returns the secrets in the value of a header such as Authorization.
func authorized(value string) []told {
	scheme, secret, found := strings.Cut(value, " ")
	if !found {
		return []told{{secret: value}}
	}
	if strings.EqualFold(scheme, "Basic") {
		if decoded, err := base64.StdEncoding.DecodeString(secret); err == nil {
			user, password, _ := strings.Cut(string(decoded), ":")
			return pair(user, password) // in base64 too
		}
	}
	return []told{{secret: secret}}
}

func userinfo(u *url.URL) []told {
	password, _ := u.User.Password()
	return pair(u.User.Username(), password)
}

const (
	// minSecret is how long a secret must be to be looked for: shorter ones would
	// blot out ordinary words. A shorter one is found after its user name.
	minSecret = 4

	// secretStart is how much of a secret tells it, where the rest was cut off.
	secretStart = 12
)

// sought returns how a secret is looked for, in small letters.
func (s told) sought() []spelling {
	if s.secret == "" || s.open == "" && len(s.secret) < minSecret {
		return nil
	}
	all := spellings(s.open, s.secret)
	for i := range all {
		all[i].text = lowered(all[i].text)
	}
	return slices.DeleteFunc(all, func(s spelling) bool { return len(s.text) < minSecret })
}

// conceal replaces the secrets in a text, in every spelling and whatever the case,
// and what begins like one of them.
func conceal(text string, secrets []told) string {
	low := lowered(text)
	var all []spelling
	for _, s := range secrets {
		for _, spelt := range s.sought() {
			if strings.Contains(low, spelt.beginning()) {
				all = append(all, spelt)
			}
		}
	}
	found := newSearch(low, all)
	var b strings.Builder
	for from := 0; ; {
		at, end := found.next(from)
		if at < 0 {
			return b.String() + text[from:]
		}
		b.WriteString(text[from:at] + redacted)
		from = end
	}
}

// search finds spellings in a text, from its beginning to its end. It goes over the text once
// for each of them, however many are found.
type search struct {
	low   string
	all   []spelling
	at    []int                       // where each begins next; len(low) for nowhere, -1 before it was looked for
	index func(text, part string) int // strings.Index, but in tests
}

func newSearch(low string, all []spelling) *search {
	return &search{low, all, slices.Repeat([]int{-1}, len(all)), strings.Index}
}

// next returns where the next of the spellings is, at or after from, which never decreases; at is
// -1 if there is none. Several may begin there, of which the longest counts: spellings of one
// secret often have the same beginning.
func (s *search) next(from int) (at, end int) {
	at = len(s.low)
	for i, spelt := range s.all {
		if s.at[i] < from {
			s.at[i] = len(s.low)
			if n := s.index(s.low[from:], spelt.beginning()); n >= 0 {
				s.at[i] = from + n
			}
		}
		at = min(at, s.at[i])
	}
	if at == len(s.low) {
		return -1, -1
	}
	for i, spelt := range s.all {
		if s.at[i] == at {
			end = max(end, at+alike(s.low[at:], spelt.text))
		}
	}
	return at, end
}

// alike is how many bytes two texts have in common at their beginnings.
func alike(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// beginning is how much of a spelling tells it. What stands in the open does not.
func (s spelling) beginning() string { return s.text[:min(len(s.text), s.open+secretStart)] }

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

package config

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Conceal removes credentials from text received from a server or a proxy, such as a debug
// page that echoes the request. It removes the configuration's credentials and those in the
// headers of req, which may be nil. Truncated credentials are recognized by their first characters.
func (c *Config) Conceal(text string, req *http.Request) string {
	if text == "" {
		return text
	}
	return conceal(text, c.sent(req))
}

type secretKey struct{}

// WithSecret returns a context for requests whose body contains a secret, such as a
// TokenReview. [Config.Conceal] removes that secret from any text about those requests.
func WithSecret(ctx context.Context, secret string) context.Context {
	return context.WithValue(ctx, secretKey{}, secret)
}

// told is a secret that is sent to the server, and the readable text that precedes it, such as a user name.
type told struct{ open, secret string }

// pair returns the two forms in which a user name and password are sent.
func pair(user, password string) []told {
	return []told{{secret: password}, {user + ":", password}}
}

// sent returns the secrets contained in a request. They do not include a certificate's key, which is never
// sent.
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
		req = &http.Request{URL: new(url.URL)} // any request works if ProxyURL is set
	}
	if choose, _ := c.proxy(); choose != nil {
		if proxy, _ := choose(req); proxy != nil { // without a proxy there is no secret
			secrets = append(secrets, userinfo(proxy)...)
		}
	}
	return secrets
}

// authorized returns the secrets in the value of an Authorization header.
func authorized(value string) []told {
	scheme, secret, found := strings.Cut(value, " ")
	if !found {
		return []told{{secret: value}}
	}
	if strings.EqualFold(scheme, "Basic") {
		if decoded, err := base64.StdEncoding.DecodeString(secret); err == nil {
			user, password, _ := strings.Cut(string(decoded), ":")
			return pair(user, password) // spellings cover base64
		}
	}
	return []told{{secret: secret}}
}

func userinfo(u *url.URL) []told {
	password, _ := u.User.Password()
	return pair(u.User.Username(), password)
}

const (
	// minSecret is the length from which secrets are searched for. Concealing shorter ones would hide
	// ordinary words, so those are found only after their user name.
	minSecret = 4

	// secretStart is the number of characters by which a truncated secret is recognized.
	secretStart = 12
)

// sought returns the spellings to search for, in lower case.
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

// conceal replaces all secrets in text, in every spelling and regardless of case, including
// truncated ones.
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

// search finds spellings in text from left to right. It scans the text once per spelling, no matter how often
// the spellings occur.
type search struct {
	low   string
	all   []spelling
	at    []int                       // next occurrence of each; len(low) if none, -1 if not searched yet
	index func(text, part string) int // strings.Index, except in tests
}

func newSearch(low string, all []spelling) *search {
	return &search{low, all, slices.Repeat([]int{-1}, len(all)), strings.Index}
}

// next returns the position of the next spelling at or after from; at is -1 if there is none. from must
// never decrease. If several spellings start at the same position, as those of one secret often do, next
// returns the longest.
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

// alike returns the length of the longest common prefix of a and b.
func alike(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// beginning returns the prefix that identifies the spelling. The open part does not count towards its
// length.
func (s spelling) beginning() string { return s.text[:min(len(s.text), s.open+secretStart)] }

// lowered converts ASCII letters to lower case, preserving byte offsets.
func lowered(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// concealed replaces an error's text. It matches the same targets in errors.Is but does not unwrap,
// so the original text stays hidden.
type concealed struct {
	text string
	is   func(target error) bool
}

func (e *concealed) Error() string { return e.text }

func (e *concealed) Is(target error) bool { return e.is(target) }

package config

import (
	"encoding/base64"
	"html"
	"html/template"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Echoed credentials are concealed in every spelling.
func TestConceal(t *testing.T) {
	const token, password = `tok/en+"Zq8vXw2kTr5yLmB`, "pass-word-Zq8v"
	req := httptest.NewRequest(http.MethodGet, "/", nil)
	req.Header.Set("Authorization", "Bearer "+token)
	c := &Config{Username: "me", Password: password, ProxyURL: "http://you:proxy-Kq7w@proxy"}
	basic := base64.StdEncoding.EncodeToString([]byte("me:" + password))
	for text, want := range map[string]string{
		"":              "",
		"nothing of it": "nothing of it",
		"Authorization: Bearer " + token + " sent":       "Authorization: Bearer [redacted] sent",
		"cut off: " + token[:15]:                         "cut off: [redacted]",
		strings.ToLower(token) + ".example.com":          "[redacted].example.com",
		`{"a":"tok/en+\"Zq8vXw2kTr5yLmB"}`:               `{"a":"[redacted]"}`,
		base64.StdEncoding.EncodeToString([]byte(token)): "[redacted]",
		"Basic " + basic:                                 "Basic [redacted]",
		password + password:                              "[redacted][redacted]",
		"you:proxy-Kq7w":                                 "[redacted]",
		"proxy-Kq7w":                                     "[redacted]",
	} {
		require.Equal(t, want, strings.TrimRight(c.Conceal(text, req), "="), "%q", text)
	}
	require.Equal(t, "Bearer "+token, new(Config).Conceal("Bearer "+token, nil))

	req.Header.Set("Authorization", "Basic "+basic)
	require.Equal(t, "[redacted] [redacted]", new(Config).Conceal(strings.TrimRight(basic, "=")+" "+password, req))

	// Spellings of one secret may have a common prefix.
	const alike = `Zq8vXw2kTr5yLmB/Jd7n"Hs+4&pQ`
	for _, text := range []string{alike, strings.ReplaceAll(alike, "/", `\/`), strings.ReplaceAll(alike, `"`, `\"`), url.QueryEscape(alike), url.PathEscape(alike)} {
		require.Equal(t, "a [redacted] b", (&Config{BearerToken: alike}).Conceal("a "+text+" b", nil))
	}

	// Pages escape the text they echo.
	page := new(strings.Builder)
	require.NoError(t, template.Must(template.New("").Parse("a {{.}} b")).Execute(page, alike))
	for _, text := range []string{page.String(), "a " + html.EscapeString(alike) + " b", "a Zq8vXw2kTr5yLmB/Jd7n&quot;Hs+4&amp;pQ b"} {
		c := &Config{BearerToken: alike}
		require.Equal(t, "a [redacted] b", c.Conceal(text, nil))
		body := []byte(text)
		c.blank(nil)(body, true)
		require.Equal(t, "a "+strings.Repeat("x", len(text)-4)+" b", string(body))
	}

	// A user name is not a secret, however long; the password after it is.
	const user = "serviceaccount-of-the-shop"
	long := &Config{Username: user, Password: password}
	basic = base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	named := httptest.NewRequest(http.MethodGet, "/", nil)
	named.Header.Set("Authorization", "Basic "+basic)
	for _, c := range []*Config{long, new(Config), {ProxyURL: "http://" + url.UserPassword(user, password).String() + "@proxy"}} {
		for text, want := range map[string]string{
			`User "` + user + `" cannot list pods`:                         `User "` + user + `" cannot list pods`,
			base64.StdEncoding.EncodeToString([]byte(user)):                base64.RawStdEncoding.EncodeToString([]byte(user)),
			user + ":" + password:                                          "[redacted]",
			"Basic " + basic:                                               "Basic [redacted]",
			"cut off: " + basic[:len(basic)-3]:                             "cut off: [redacted]",
			"cut off: " + user + ":" + password[:len(password)-1]:          "cut off: [redacted]",
			"as it stands in a URL: " + url.QueryEscape(user+":"+password): "as it stands in a URL: [redacted]",
		} {
			require.Equal(t, want, strings.TrimRight(c.Conceal(text, named), "="), "%q", text)
		}
	}
	require.Equal(t, "abc", (&Config{BearerToken: "abc"}).Conceal("abc", nil), "too short to be told from a word")

	// A short password is recognized by the user name before it.
	short := &Config{Username: "administrator", Password: "k8s"}
	for text, want := range map[string]string{
		"administrator uses k8s": "administrator uses k8s",
		"administrator:k8s":      "[redacted]",
		base64.StdEncoding.EncodeToString([]byte("administrator:k8s")): "[redacted]",
	} {
		require.Equal(t, want, strings.TrimRight(short.Conceal(text, nil), "="), "%q", text)
	}
}

// A server echoes the token over and over in one spelling, and once in another at the
// end. Each spelling is searched for once in every part of the text.
func TestConcealingGrowsWithTheLength(t *testing.T) {
	const token = "abcdefghij+lm/opqrstuvwxyz"
	const times = 1000
	text := strings.Repeat(token[:12]+" ", times) + url.QueryEscape(token)
	all := spellings("", token)
	found, read, hits := newSearch(text, all), 0, 0
	found.index = func(text, part string) int {
		n := strings.Index(text, part)
		if read += n + len(part); n < 0 {
			read += len(text)
		}
		return n
	}
	for at, end := found.next(0); at >= 0; at, end = found.next(end) {
		hits++
	}
	require.Equal(t, times+1, hits)
	require.Less(t, read, 2*len(all)*len(text), "bytes were compared")
}

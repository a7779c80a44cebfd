package config

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The plugin's secrets are found in every spelling that it may print.
func TestScrubFindsEverySpelling(t *testing.T) {
	_, key := newAuthority(t, "ca").issue(t, "x", time.Now().Add(time.Hour))
	quoted, err := json.Marshal(string(key))
	require.NoError(t, err)
	line := strings.Split(string(key), "\n")[1]
	const token = `a/b+c<d"e f`
	quotedToken, err := json.Marshal(token)
	require.NoError(t, err)
	for name, text := range map[string]string{
		"as it is":         token,
		"in JSON":          string(quotedToken),
		"in a query":       "https://x/?token=" + url.QueryEscape(token),
		"in a path":        url.PathEscape(token),
		"in base64":        base64.StdEncoding.EncodeToString([]byte(token)),
		"in base64 of URL": base64.URLEncoding.EncodeToString([]byte(token)),
		"key as it is":     string(key),
		"key in JSON":      string(quoted),
		"line of the key":  "line 2: " + line,
	} {
		shown := scrub(text, token, string(key))
		require.Contains(t, shown, redacted, name)
		require.NotContains(t, shown, "a/b+c", name)
		require.NotContains(t, shown, "a%2Fb", name)
		require.NotContains(t, shown, strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(token)), "="), name)
		require.NotContains(t, shown, line, name)
	}
}

// Unknown secrets are removed, since only prose is kept.
func TestProse(t *testing.T) {
	for text, want := range map[string]string{
		"Unable to locate credentials. You can configure them by running \"aws configure\".": "Unable to locate credentials. You can configure them by running \"aws configure\".",
		"error: exit 3 after 10s: no such profile 'prod-eu-1'":                               "error: exit 3 after 10s: no such profile 'prod-eu-1'",
		"dial https://sts.eu-west-1.amazonaws.com/oauth?state=marked: refused":               "dial https://sts.eu-west-1.amazonaws.com/oauth refused",
		"open /home/ann/.kube/cache/oidc-login: no such file":                                "open /home/ann/.kube/cache/oidc-login: no such file",
		`{"status":{"token":"marked","clientKeyData":"-----BEGIN marked`:                     `{"status":{"token": [redacted],"clientKeyData": [redacted]`,
		"-----BEGIN PRIVATE KEY-----\nmarked\n-----END PRIVATE KEY-----\nfailed":             "[redacted]\nfailed",
		"sent Authorization: Bearer marked-token":                                            "sent Authorization: [redacted] [redacted]",
		"password=marked user=ann":                                                           "password=[redacted] user=ann",
		"Your token is marked":                                                               "Your token is [redacted]",
		"got eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.eyJzdWIiOiJtYXJrZWQifQ.c2lnbmF0dXJl":         "got [redacted]",
		"s3cr3t-marked-value":                                                                "[redacted]",
		"":                                                                                   "",
	} {
		shown := prose(text)
		require.NotContains(t, shown, "marked", text)
		require.Equal(t, want, shown)
	}
}

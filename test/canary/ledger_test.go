package canary

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// The secrets. Each is unique and contains characters that JSON, URLs and HTML escape.
var canaries = map[string]string{
	"token":          `tok-Zx81"q&7/WvM+eyK3nBd9Lc`,
	"file token":     "file-Hp42tokenQwZ7xKdRb5sYf",
	"plugin token":   "plug-Mn63tokenVcT8zLfGh2jDa",
	"password":       `pass-Rk95"w<Ys/4uXoNe+Bq6Ti`,
	"proxy password": "prox-Jd27passUzF3vHmWc8gEl",
	"environment":    "envi-Tb50valueLsP6aYkXn4oQr",
	"secret":         `secr-Gw38"data\Ci1ypRv9MjHe`,
	"config":         "conf-Ve74dataOq2iZuKb6TnSxa",
	"scraper token":  `scra-Fy65"token\Wq3jXb&Pn9LmV`,
}

// spellings returns the forms in which a text may be printed.
func spellings(secret string) []string {
	quoted, err := json.Marshal(secret)
	if err != nil {
		panic(err) // cannot fail for a string
	}
	all := []string{
		secret, strings.Trim(string(quoted), `"`), fmt.Sprintf("%q", secret), url.QueryEscape(secret), url.PathEscape(secret),
		base64.RawStdEncoding.EncodeToString([]byte(secret)), base64.RawURLEncoding.EncodeToString([]byte(secret)),
		hex.EncodeToString([]byte(secret)), strings.Trim(fmt.Sprint([]byte(secret)), "[]"),
		strings.ToLower(secret), secret[:14], secret[14:], // a part of it, where texts are cut
	}
	for i := range all {
		all[i] = strings.Trim(all[i], `"`)
	}
	return all
}

// ledger is all that was said, by where it was said. It may be used from many
// goroutines.
type ledger struct {
	mu   sync.Mutex
	said map[string]*strings.Builder
	keys []string // lines of private keys
}

func newLedger() *ledger { return &ledger{said: map[string]*strings.Builder{}} }

// keep remembers a private key in PEM as a secret.
func (l *ledger) keep(key []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := strings.Split(string(key), "\n")
	l.keys = append(l.keys, lines[1:len(lines)-2]...)
	l.keys = slices.DeleteFunc(l.keys, func(line string) bool { return len(line) < 48 })
}

// say adds a text.
func (l *ledger) say(where, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.said[where] == nil {
		l.said[where] = new(strings.Builder)
	}
	l.said[where].WriteString(text + "\n")
}

// place is a part of a ledger, as a writer.
type place struct {
	*ledger
	where string
}

func (p place) Write(text []byte) (int, error) {
	p.say(p.where, string(text))
	return len(text), nil
}

// logger writes everything, as text and as JSON.
func (l *ledger) logger() *slog.Logger {
	all := &slog.HandlerOptions{Level: slog.LevelDebug - 4, AddSource: true}
	return slog.New(slog.NewMultiHandler(slog.NewTextHandler(place{l, "log"}, all), slog.NewJSONHandler(place{l, "log in JSON"}, all)))
}

// value adds a value in every form in which Go prints it.
func (l *ledger) value(where string, v any) {
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		l.say(where, fmt.Sprintf(verb, v))
	}
	if text, err := json.Marshal(v); err == nil {
		l.say(where, string(text))
	}
}

// err adds an error and all that it wraps.
func (l *ledger) err(where string, err error) {
	if err == nil {
		return
	}
	l.value(where, err)
	if v := reflect.ValueOf(err); v.Kind() == reflect.Pointer && !v.IsNil() {
		l.say(where, fmt.Sprintf("%+v %#v", v.Elem(), v.Elem()))
	}
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		l.value(where, status.ErrStatus)
		l.value(where, status.ErrStatus.Details)
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		l.err(where, e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			l.err(where, err)
		}
	}
}

// plain is a text without the backslashes that quoting it, perhaps twice, has put in.
func plain(text string) string {
	return strings.ReplaceAll(strings.NewReplacer(`\u0026`, "&", `\u003c`, "<", `\u003e`, ">", "&amp;", "&", "&lt;", "<", "&#34;", `"`).Replace(text), `\`, "")
}

// leaks returns every canary that was found, with where and what stands around it.
func (l *ledger) leaks() (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for where, said := range l.said {
		text := plain(said.String())
		for _, line := range l.keys {
			// In base64 it may stand at any place of three bytes.
			for _, form := range []string{line, line[:24], base64.RawStdEncoding.EncodeToString([]byte(line))[:40], base64.RawStdEncoding.EncodeToString([]byte(line[1:]))[:40], base64.RawStdEncoding.EncodeToString([]byte(line[2:]))[:40]} {
				if at := strings.Index(text, form); at >= 0 {
					found = append(found, fmt.Sprintf("a key is in the %s: ...%s...", where, text[max(0, at-300):at]))
					break
				}
			}
		}
		for name, secret := range canaries {
			for _, form := range spellings(secret) {
				if at := strings.Index(text, plain(form)); at >= 0 {
					found = append(found, fmt.Sprintf("the %s is in the %s: ...%s...", name, where, text[max(0, at-300):min(len(text), at+60)]))
					break
				}
			}
		}
	}
	return found
}

// requireSilence fails t if a canary was found. Of nothing nothing can be found, so the
// places where something must have been said are named.
func (l *ledger) requireSilence(t *testing.T, places ...string) {
	t.Helper()
	for _, where := range places {
		l.mu.Lock()
		said := l.said[where]
		l.mu.Unlock()
		require.NotNil(t, said, "nothing was said in the %s", where)
	}
	for _, leak := range l.leaks() {
		t.Error(leak)
	}
}

// The ledger finds every canary in every form and in every place that the tests look at.
func TestALeakIsFound(t *testing.T) {
	for name, secret := range canaries {
		for _, form := range spellings(secret) {
			for where, leak := range map[string]func(l *ledger){
				"log":         func(l *ledger) { l.logger().Debug("x", "y", form) },
				"log in JSON": func(l *ledger) { l.logger().Debug(form) },
				"error":       func(l *ledger) { l.err("error", fmt.Errorf("a: %w", errors.Join(errors.New("b"), errors.New(form)))) },
				"status": func(l *ledger) {
					l.err("status", &apierrors.StatusError{ErrStatus: apierrors.NewUnauthorized(form).ErrStatus})
				},
				"value": func(l *ledger) { l.value("value", struct{ A []string }{[]string{form}}) },
				"page":  func(l *ledger) { l.say("page", "<td>"+form+"</td>") },
			} {
				l := newLedger()
				leak(l)
				if len(l.leaks()) == 0 {
					t.Errorf("the %s was not found in the %s as %q", name, where, form)
				}
			}
		}
	}
}

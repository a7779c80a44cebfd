package config

import (
	"encoding/base64"
	"encoding/json"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// scrub replaces all occurrences of the secrets in text, in every form in which a program may print them.
// It ignores secrets shorter than four bytes, because replacing those would hide ordinary words.
func scrub(text string, secrets ...string) string {
	var all []spelling
	for _, s := range secrets {
		if len(s) >= minSecret {
			all = append(all, spellings("", s)...)
		}
	}
	slices.SortFunc(all, func(a, b spelling) int { return len(b.text) - len(a.text) })
	for _, s := range all {
		text = strings.ReplaceAll(text, s.text, redacted)
	}
	return text
}

// spelling is one way to write a secret. Its first open bytes are readable text that precedes the secret.
type spelling struct {
	text string
	open int
}

// spellings returns the ways to write a secret that follows readable text: as is, in URLs, base64, JSON, Go
// syntax and HTML, and each line on its own. There are no duplicates.
func spellings(open, secret string) []spelling {
	var all []spelling
	for _, spell := range []func(string) string{
		func(s string) string { return s },
		url.QueryEscape,
		url.PathEscape,
		// A spelling without padding also matches text with padding.
		func(s string) string { return base64.RawStdEncoding.EncodeToString([]byte(s)) },
		func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) },
		func(s string) string {
			quoted, _ := json.Marshal(s) // cannot fail on a string
			return string(quoted[1 : len(quoted)-1])
		},
		func(s string) string { // also JSON that is not escaped for HTML
			quoted := strconv.Quote(s)
			return quoted[1 : len(quoted)-1]
		},
		func(s string) string { return strings.ReplaceAll(s, "\n", `\n`) },
		func(s string) string { return strings.ReplaceAll(s, "/", `\/`) },
		html.EscapeString,
		func(s string) string { return strings.ReplaceAll(html.EscapeString(s), "+", "&#43;") }, // html/template
		func(s string) string { // HTML escaped by other libraries
			return strings.NewReplacer("&#34;", "&quot;", "&#39;", "&#x27;").Replace(html.EscapeString(s))
		},
	} {
		if spelt := (spelling{spell(open + secret), len(spell(open))}); !slices.Contains(all, spelt) {
			all = append(all, spelt)
		}
	}
	for line := range strings.Lines(secret) {
		if line = strings.TrimSpace(line); len(line) >= 8 && line != secret {
			all = append(all, spelling{text: line})
		}
	}
	return all
}

// prose removes everything from text that does not read like prose and could therefore be an unknown secret:
// PEM keys, the words after "Bearer" or "password:", all values in JSON, and random-looking words.
func prose(text string) string {
	for _, rule := range []struct{ find, put string }{
		{`(?s)-----BEGIN .*?(-----END [A-Z ]*-----|$)`, redacted},
		{`(?i)\b(bearer|basic)[ \t]+\S{8,}`, "$1 " + redacted},
		{`"\s*:\s*"(\\.|[^"\\])*("|$)`, `": "` + redacted + `"`},
		{`(?i)(token|passw(or)?d|passphrase|secret|key|credential|authorization|assertion|signature|cookie|session|code)([\w.-]*["']?[ \t]*[:=][ \t]*|[ \t]+is[ \t]+)("[^"]*"?|'[^']*'?|[^\s"']+)`, "$1$3" + redacted},
	} {
		text = regexp.MustCompile(rule.find).ReplaceAllString(text, rule.put)
	}
	word := regexp.MustCompile(`[^\s"'` + "`" + `]+`)
	return word.ReplaceAllStringFunc(text, func(w string) string {
		if strings.Contains(w, redacted) {
			return w
		}
		return plainWord(w)
	})
}

// plainWord redacts the components of a word that look random, and the query of an address.
func plainWord(word string) string {
	address := strings.Contains(word, "://") || strings.HasPrefix(strings.TrimLeft(word, "(."), "/")
	if address {
		word, _, _ = strings.Cut(word, "?")
	} else if len(word) >= 32 && mixed(word) {
		return redacted
	}
	part := regexp.MustCompile(`[\pL\pN_+~%-]{12,}`)
	return part.ReplaceAllStringFunc(word, func(p string) string {
		if mixed(p) || len(p) >= 40 {
			return redacted
		}
		return p
	})
}

// mixed reports whether a word contains both letters and digits.
func mixed(word string) bool {
	return strings.ContainsFunc(word, unicode.IsLetter) && strings.ContainsFunc(word, unicode.IsDigit)
}

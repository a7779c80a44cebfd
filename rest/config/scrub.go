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

// scrub replaces every occurrence of the secrets in a text, in the spellings that a
// program may print them in. Secrets shorter than four bytes are left, since they
// would blot out ordinary words.
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

// spelling is one way to write a secret, after so many bytes of something else.
type spelling struct {
	text string
	open int
}

// spellings returns a secret that stands after something else as it is, within a URL, in
// base64, within JSON, as Go prints it and within HTML, and its lines. None comes twice.
func spellings(open, secret string) []spelling {
	var all []spelling
	for _, spell := range []func(string) string{
		func(s string) string { return s },
		url.QueryEscape,
		url.PathEscape,
		// Without padding it is found with it, too.
		func(s string) string { return base64.RawStdEncoding.EncodeToString([]byte(s)) },
		func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) },
		func(s string) string {
			quoted, _ := json.Marshal(s) // of a string it does not fail
			return string(quoted[1 : len(quoted)-1])
		},
		func(s string) string { // and JSON that is not for HTML
			quoted := strconv.Quote(s)
			return quoted[1 : len(quoted)-1]
		},
		func(s string) string { return strings.ReplaceAll(s, "\n", `\n`) },
		func(s string) string { return strings.ReplaceAll(s, "/", `\/`) },
		html.EscapeString,
		func(s string) string { return strings.ReplaceAll(html.EscapeString(s), "+", "&#43;") }, // html/template
		func(s string) string { // not of Go
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

// prose takes out of a text what does not read as prose, since it may be a secret
// that nobody told us: keys in PEM, what stands after "Bearer" or "password:", every
// value in JSON, and words that no language has.
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

// plainWord returns a word, without the parts that look as if made by chance. Of an
// address the query is cut.
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

// mixed reports whether a word has letters and digits.
func mixed(word string) bool {
	return strings.ContainsFunc(word, unicode.IsLetter) && strings.ContainsFunc(word, unicode.IsDigit)
}

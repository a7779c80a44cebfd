package config

import (
	"encoding/base64"
	"encoding/json"
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
	var all []string
	for _, s := range secrets {
		if len(s) >= 4 {
			all = append(all, spellings(s)...)
		}
	}
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	for _, s := range all {
		text = strings.ReplaceAll(text, s, redacted)
	}
	return text
}

// spellings returns a secret as it is, within JSON, within a URL and in base64, and
// its lines.
func spellings(secret string) []string {
	all := []string{
		secret, url.QueryEscape(secret), url.PathEscape(secret),
		base64.RawStdEncoding.EncodeToString([]byte(secret)), // without padding it is found with it, too
		base64.RawURLEncoding.EncodeToString([]byte(secret)),
	}
	if quoted, err := json.Marshal(secret); err == nil {
		all = append(all, strings.Trim(string(quoted), `"`))
	}
	quoted := strconv.Quote(secret) // as Go prints it, and JSON that is not for HTML
	all = append(all, quoted[1:len(quoted)-1])
	all = append(all, strings.ReplaceAll(secret, "\n", `\n`), strings.ReplaceAll(secret, "/", `\/`))
	for line := range strings.Lines(secret) {
		if line = strings.TrimSpace(line); len(line) >= 8 && line != secret {
			all = append(all, line)
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

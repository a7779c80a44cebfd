package config

import (
	"net/http"
	"strings"

	"github.com/millrace-dev/millrace/recording"
)

// blank returns a function that overwrites the request's credentials in a response that
// echoes them. It finds the same credentials as Conceal. It does not change the response's length, because
// most encodings include lengths.
func (c *Config) blank(sent *http.Request) recording.Blank {
	var all []spelling
	for _, s := range c.sent(sent) {
		all = append(all, s.sought()...)
	}
	if len(all) == 0 {
		return nil
	}
	return func(body []byte, last bool) (open int) {
		low := lowered(string(body))
		var there []spelling
		for _, s := range all {
			open = max(open, overlap(low, s.text))
			if strings.Contains(low, s.beginning()) {
				there = append(there, s)
			}
		}
		found := newSearch(low, there)
		for from := 0; ; {
			at, end := found.next(from)
			if at < 0 || !last && end == len(body) && end-at <= open {
				return open
			}
			for i := at; i < end; i++ {
				body[i] = 'x'
			}
			from = end
		}
	}
}

// overlap returns the length of text's longest suffix that is a proper prefix of other.
func overlap(text, other string) int {
	for n := min(len(text), len(other)-1); n > 0; n-- {
		if text[len(text)-n:] == other[:n] {
			return n
		}
	}
	return 0
}

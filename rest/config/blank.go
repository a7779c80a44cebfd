package config

import (
	"net/http"
	"strings"

	"github.com/millrace-dev/millrace/recording"
)

// blank returns what writes over the credentials of a request, as it was sent, where its
// answer repeats them. It finds what Conceal finds. The answer keeps its length, since
// most encodings say how long their parts are.
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

// overlap is how many bytes at the end of a text begin another one, which is not there
// whole.
func overlap(text, other string) int {
	for n := min(len(text), len(other)-1); n > 0; n-- {
		if text[len(text)-n:] == other[:n] {
			return n
		}
	}
	return 0
}

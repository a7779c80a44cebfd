package serving

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"strings"
	"time"
)

const (
	// allowedFor and refusedFor are how long a verdict counts, and so how late a
	// right that was taken away or given is noticed.
	allowedFor = time.Minute
	refusedFor = 10 * time.Second

	// knownFor is how long a caller that was allowed counts as no stranger.
	knownFor = 10 * time.Minute

	// maxVerdicts bounds each of the two memories, of verdicts and of refusals.
	// Both have one of their own, so that refused callers cannot crowd out the
	// others.
	maxVerdicts = 1024

	// maxUser is how much is remembered of a user's name.
	maxUser = 256
)

// question is what a verdict answers: the hash of a token, a verb and a path.
// Whatever a caller sends, it has one size.
type question [sha256.Size]byte

// ask makes a question of a token, and of a verb and a path unless the token
// alone is in question.
func ask(token string, verbAndPath ...string) question {
	return sha256.Sum256(fmt.Appendf(nil, "%q%q", token, verbAndPath))
}

type verdict struct {
	code int    // 200, 401 or 403
	user string // whose token it was; empty with 401
	when time.Time
}

// verdicts are the latest ones.
type verdicts map[question]verdict

// add remembers a verdict, for keep at least where there is room.
func (m verdicts) add(q question, v verdict, keep time.Duration) {
	if _, here := m[q]; !here && len(m) >= maxVerdicts {
		maps.DeleteFunc(m, func(_ question, old verdict) bool { return v.when.Sub(old.when) > keep })
	}
	if _, here := m[q]; !here && len(m) >= maxVerdicts {
		oldest, found := question{}, verdict{when: v.when.Add(time.Hour)}
		for q, v := range m {
			if v.when.Before(found.when) {
				oldest, found = q, v
			}
		}
		delete(m, oldest)
	}
	v.user = strings.Clone(v.user[:min(len(v.user), maxUser)])
	m[q] = v
}

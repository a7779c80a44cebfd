package serving

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"strings"
	"time"
)

const (
	// allowedFor and refusedFor are how long a verdict is valid, and therefore how long a revoked or granted
	// permission may take to take effect.
	allowedFor = time.Minute
	refusedFor = 10 * time.Second

	// knownFor is how long an allowed caller is treated as known.
	knownFor = 10 * time.Minute

	// maxVerdicts limits the number of cached approvals, and also of denials. The two are kept separately, so
	// rejected callers cannot displace approvals.
	maxVerdicts = 1024

	// maxUser limits how much of a user's name is kept.
	maxUser = 256
)

// question identifies a decision by a fixed-size hash of token, verb and path.
type question [sha256.Size]byte

// ask returns the question for a token with a verb and a path, or for just the token.
func ask(token string, verbAndPath ...string) question {
	return sha256.Sum256(fmt.Appendf(nil, "%q%q", token, verbAndPath))
}

type verdict struct {
	code int    // 200, 401 or 403
	user string // the token's owner; empty with 401
	when time.Time
}

// verdicts contains the latest verdicts.
type verdicts map[question]verdict

// add stores a verdict. If there is room, it keeps other verdicts for at least keep.
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

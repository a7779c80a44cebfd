package serving

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"strings"
	"time"
)

const (
	// allowedFor and refusedFor are how long a verdict is valid, and therefore how long a revoked or
	// granted permission may take to have effect.
	allowedFor = time.Minute
	refusedFor = 10 * time.Second

	// knownFor is how long a caller that was allowed is treated as known.
	knownFor = 10 * time.Minute

	// maxVerdicts limits the number of remembered permissions, and also of refusals. The two are kept
	// separately, so refused callers cannot displace permissions.
	maxVerdicts = 1024

	// maxUser limits the remembered part of a user's name.
	maxUser = 256
)

// question identifies a decision by the hash of token, verb and path, which has a fixed
// size.
type question [sha256.Size]byte

// ask returns the question for a token with a verb and a path, or for just the token.
func ask(token string, verbAndPath ...string) question {
	return sha256.Sum256(fmt.Appendf(nil, "%q%q", token, verbAndPath))
}

type verdict struct {
	code int    // 200, 401 or 403
	user string // owner of the token; empty with 401
	when time.Time
}

// verdicts are the latest verdicts.
type verdicts map[question]verdict

// add remembers a verdict. If there is room, it keeps other verdicts for at least keep.
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

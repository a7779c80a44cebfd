package conformance

import "testing"

// Judge plays c and returns the result.
func Judge(t *testing.T, c Case, build func(Server) Stack) Result {
	r := Result{Law: c.Law, Case: c.Name, Verdict: Kept}
	inBubble(t, c, build, &r, func() {})
	return r
}

// JudgeKnown plays c as Informers does.
func JudgeKnown(t *testing.T, c Case, build func(Server) Stack, known Known) {
	judge(t, c, build, &known)
}

// Once is JudgeKnown for one play, and returns the result.
func Once(t *testing.T, c Case, build func(Server) Stack, known Known) Result {
	return once(t, c, build, &known)
}

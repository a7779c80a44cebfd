package conformance

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-dev/millrace/apiservertest"
)

// Case tests one rule of the contract.
type Case struct {
	// Law is the law in LAWS.md that contains the rule.
	Law string

	// Name summarizes the rule.
	Name string

	// Source is the URL of a line in client-go's documentation that promises the same. It is empty if only
	// Millrace promises it.
	Source string

	server apiservertest.Options
	play   func(*play)
}

func (c Case) String() string { return c.Law + "/" + c.Name }

// Cases returns all cases, ordered by law.
func Cases() []Case {
	all := slices.Concat(order, pairing, joining, leaving, lag, panics, resyncs, cache, readOnly, following, scopes, life, work, shutdown, delays)
	slices.SortStableFunc(all, func(a, b Case) int { return strings.Compare(a.Law, b.Law) })
	return all
}

// Informers runs each case against a new server and a new stack created by build. Known breaks do not make
// the test fail.
func Informers(t *testing.T, build func(Server) Stack, known ...Known) {
	byLaw := map[string][]Case{}
	for _, c := range Cases() {
		byLaw[c.Law] = append(byLaw[c.Law], c)
	}
	for _, k := range known {
		if !slices.ContainsFunc(Cases(), func(c Case) bool { return c.String() == k.Case }) {
			t.Errorf("%q is declared as Known, but there is no such case", k.Case)
		}
	}
	for _, law := range laws() {
		t.Run(law, func(t *testing.T) {
			for _, c := range byLaw[law] {
				t.Run(c.Name, func(t *testing.T) {
					k := slices.IndexFunc(known, func(k Known) bool { return k.Case == c.String() })
					var expected *Known
					if k >= 0 {
						expected = &known[k]
					}
					judge(t, c, build, expected)
				})
			}
		})
	}
}

func laws() (all []string) {
	for _, c := range Cases() {
		if !slices.Contains(all, c.Law) {
			all = append(all, c.Law)
		}
	}
	return all
}

// plays is how often to run a case that is known to break sometimes, at most.
const plays = 20

// judge runs c and reports the result.
func judge(t *testing.T, c Case, build func(Server) Stack, known *Known) {
	most := 1
	if known != nil && known.Sometimes {
		most = plays
	}
	var r Result
	for range most {
		if r = once(t, c, build, known); r.Verdict != Kept {
			break
		}
	}
	if r.Verdict == Kept && known != nil && !known.Sometimes {
		t.Errorf("%s is kept but is declared as Known: %s", c, known.Story)
	}
}

// once runs c once, sets the attribute, and reports any break.
func once(t *testing.T, c Case, build func(Server) Stack, known *Known) Result {
	r := Result{Law: c.Law, Case: c.Name, Verdict: Kept}
	tell := func() {
		if r.Verdict != Kept {
			r.Known = known
		}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Attr("conformance", string(text))
		switch {
		case r.Verdict == NotOffered:
			t.Logf("not offered: %s", strings.Join(r.Breaks, "; "))
		case r.Verdict == Broken && known == nil:
			t.Errorf("%s\n%s", c, strings.Join(r.Breaks, "\n"))
		case r.Verdict == Broken:
			t.Logf("%s breaks, as expected: %s\n%s", c, known.Story, strings.Join(r.Breaks, "\n"))
		}
	}
	if known != nil && known.Fatal {
		r.Verdict, r.Breaks = Broken, []string{"not played: it would end the process"}
		tell()
		return r
	}
	inBubble(t, c, build, &r, tell)
	return r
}

// lifetime is the time limit for a case, in virtual time.
const lifetime = 48 * time.Hour

// inBubble runs c. It calls ended as soon as the verdict is known, before leaving the bubble, because
// testing/synctest crashes the process if the stack has leaked a goroutine that is still there after an hour.
func inBubble(t *testing.T, c Case, build func(Server) Stack, r *Result, ended func()) {
	synctest.Test(t, func(t *testing.T) {
		opts := c.server
		opts.Seed = 1
		srv := apiservertest.New(opts)
		defer srv.Close()
		endpoint, err := srv.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		p := newPlay(t.Context(), srv, endpoint, build)
		defer p.cancel()
		done := make(chan struct{})
		go func() {
			defer close(done)
			p.guard("the case", func() { c.play(p) })
		}()
		p.waitFor(t, done, "the case")
		p.cancel()
		p.shutDown()
		all := make(chan struct{})
		go func() { p.runs.Wait(); close(all) }()
		p.waitFor(t, all, "Run, whose context is done,")
		p.judge(r)
		ended()
		settle(time.Hour)
	})
}

// judge records the verdict on a completed case in r.
func (p *play) judge(r *Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r.Breaks = slices.Clone(p.broken)
	switch {
	case len(p.broken) > 0:
		r.Verdict = Broken
		if p.writes.Load() >= flood {
			r.Breaks = append(r.Breaks, fmt.Sprintf("there was a flood of requests: the server was taken down after %d writes", flood))
		}
	case p.missing != "":
		r.Verdict, r.Breaks = NotOffered, []string{p.missing}
	}
}

// waitFor waits until done is closed, for at most lifetime. It logs a timeout immediately, because
// testing/synctest crashes the process if any goroutine is still waiting at the end of the bubble.
func (p *play) waitFor(t *testing.T, done <-chan struct{}, what string) {
	select {
	case <-done:
	case <-time.After(lifetime):
		p.breaks("%s has not ended after %s", what, lifetime)
		t.Logf("%s has not ended after %s: a call of the stack does not return", what, lifetime)
	}
}

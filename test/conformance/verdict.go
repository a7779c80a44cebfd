package conformance

import "fmt"

// Verdict is what came of a case.
type Verdict string

const (
	Kept       Verdict = "kept"        // the stack did as the sentence says
	Broken     Verdict = "broken"      // it did not
	NotOffered Verdict = "not offered" // it has nothing that the sentence is about
)

// Known is a sentence that a stack is known to break, or to have nothing for.
type Known struct {
	// Case is the law and the name of the case, as in "L03/a missed deletion is told".
	Case string

	// Story tells in a line what happens instead.
	Story string

	// Says is the address of the line of the stack's documentation that says what to
	// expect instead. Empty means that no line says anything.
	Says string

	// Sometimes says that it depends on chance, so that the case may also be kept. It is
	// played up to 20 times, until it breaks.
	Sometimes bool

	// Fatal says that the break ends the process, such as a panic of a handler that the
	// stack does not recover. The case is not played, and counts as broken.
	Fatal bool
}

// Result is the verdict on one case, as the attribute "conformance" has it. Of a case that is
// played several times the last one counts.
type Result struct {
	Law     string  `json:"law"`
	Case    string  `json:"case"`
	Verdict Verdict `json:"verdict"`

	// Breaks is what was seen to be wrong, or what is not offered.
	Breaks []string `json:"breaks,omitempty"`

	// Known is what the stack's authors say of it, if it is not kept.
	Known *Known `json:"known,omitempty"`
}

func (r Result) String() string { return fmt.Sprintf("%s/%s: %s", r.Law, r.Case, r.Verdict) }

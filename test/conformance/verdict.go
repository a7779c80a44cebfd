package conformance

import "fmt"

// Verdict is the outcome of a case.
type Verdict string

const (
	Kept       Verdict = "kept"        // the stack kept the sentence
	Broken     Verdict = "broken"      // it did not
	NotOffered Verdict = "not offered" // it lacks the feature
)

// Known is a sentence that a stack is known to break, or cannot be tested for.
type Known struct {
	// Case is the law and the name of the case, as in "L03/a missed deletion is reported".
	Case string

	// Story describes the actual behaviour in one line.
	Story string

	// Says is the URL of the line in the stack's documentation that describes the actual behaviour. It is
	// empty if there is no such line.
	Says string

	// Sometimes means that the break depends on chance. The case is played up to 20 times, until it breaks.
	Sometimes bool

	// Fatal means that the break ends the process, for example by an unrecovered panic of a handler. The
	// case is not played, and counts as broken.
	Fatal bool
}

// Result is the verdict on one case, as stored in the attribute "conformance". If a case is played
// several times, the last result counts.
type Result struct {
	Law     string  `json:"law"`
	Case    string  `json:"case"`
	Verdict Verdict `json:"verdict"`

	// Breaks lists the breaks, or the features that are not offered.
	Breaks []string `json:"breaks,omitempty"`

	// Known is the declared break, if the stack did not keep the sentence.
	Known *Known `json:"known,omitempty"`
}

func (r Result) String() string { return fmt.Sprintf("%s/%s: %s", r.Law, r.Case, r.Verdict) }

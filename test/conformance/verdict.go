package conformance

import "fmt"

// Verdict is the outcome of a case.
type Verdict string

const (
	Kept       Verdict = "kept"        // the stack kept the rule
	Broken     Verdict = "broken"      // it did not
	NotOffered Verdict = "not offered" // the stack lacks the feature
)

// Known declares that a stack is known to break a case, or that the case cannot be run against it.
type Known struct {
	// Case is the case's law and name, as in "L03/a missed deletion is reported".
	Case string

	// Story is a one-line description of the actual behavior.
	Story string

	// Says is the URL of the line in the stack's documentation that describes the actual behavior, or empty
	// if there is none.
	Says string

	// Sometimes is set if the break depends on chance. The case then runs until it breaks, up to 20 times.
	Sometimes bool

	// Fatal is set if the break crashes the process, for example because a handler's panic is not recovered.
	// The case is not run, and is treated as broken.
	Fatal bool
}

// Result is the verdict on one case, as stored in the attribute "conformance". If a case runs several times,
// this is the last result.
type Result struct {
	Law     string  `json:"law"`
	Case    string  `json:"case"`
	Verdict Verdict `json:"verdict"`

	// Breaks lists the breaks, or the features that are not offered.
	Breaks []string `json:"breaks,omitempty"`

	// Known is the declared break, if the verdict is [Broken].
	Known *Known `json:"known,omitempty"`
}

func (r Result) String() string { return fmt.Sprintf("%s/%s: %s", r.Law, r.Case, r.Verdict) }

package failure

// Verdict is what an error handler decides.
type Verdict uint8

const (
	// Retry goes on after a back-off.
	Retry Verdict = iota
	// Stop ends Run with the failure as its error.
	Stop
)

// String names the verdict as in its documentation.
func (v Verdict) String() string {
	switch v {
	case Retry:
		return "Retry"
	case Stop:
		return "Stop"
	}
	return "Unknown"
}

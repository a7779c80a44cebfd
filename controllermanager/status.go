package controllermanager

// State is where a controller is in its life.
type State uint8

// The states of a controller.
const (
	// Pending: it will be made or started.
	Pending State = iota
	// Disabled: it was not chosen.
	Disabled
	// Skipped: the server does not serve what it requires. It is looked at again every
	// Options.DiscoveryInterval.
	Skipped
	// Declined: it was asked, and returned nothing to run.
	Declined
	// Running: its Run has been called.
	Running
	// Ended: its Run has returned.
	Ended
)

// String names the state in lower case.
func (s State) String() string {
	switch s {
	case Pending:
		return "pending"
	case Disabled:
		return "disabled"
	case Skipped:
		return "skipped"
	case Declined:
		return "declined"
	case Running:
		return "running"
	case Ended:
		return "ended"
	}
	return "unknown"
}

// MarshalText lets a Status print readably as JSON.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Status is one controller seen from outside.
type Status struct {
	Name   string
	State  State
	Reason string // why it does not run or failed; empty where all is well
}

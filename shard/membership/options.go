package membership

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/millrace-dev/millrace/internal/lease"
)

// Defaults and limits of options.
const (
	defaultSlots = 1024

	mostSlots  = 1 << 14
	mostWeight = 1000
	longest    = time.Hour // that others wait for one who is silent
	mostText   = 256       // bytes of an identity, and of a layout
)

// Options name the group and say what this member takes. Namespace and Name are required.
type Options struct {
	// Namespace is where the Leases of the group are, and Name is the group's: a DNS label
	// of 40 characters at most. Leases have it in a label and at the beginning of their names.
	Namespace string
	Name      string

	// Identity is this member's, and no other's. Default: the host name, the process ID
	// and a random text. A member that comes back under its old identity has to wait until
	// its old Lease has run out, if it did not leave cleanly. At most 256 bytes of UTF-8.
	Identity string

	// Slots is how many slots the group has; default 1024. Layout is whatever else must be
	// the same in all members, such as the names of keys. A member that has it otherwise than
	// those who work does not work: see Status.Refusal. At most 256 bytes of UTF-8.
	Slots  int
	Layout string

	// Weight is how much this member takes in proportion to others, from 1 to 1000.
	// Default 1.
	Weight int

	// Patience is for how long work in hand goes on after its slot is wanted elsewhere. Its
	// context ends then, and the slot is handed over when the work has ended. Default 10 s;
	// negative is not at all.
	Patience time.Duration

	// LeaseDuration, RenewDeadline and RetryPeriod are as in leaderelection.Options, with
	// the same defaults: 15 s, 10 s and 2 s. An hour is the most.
	LeaseDuration time.Duration
	RenewDeadline time.Duration
	RetryPeriod   time.Duration

	// Labels are put on our Lease besides those of the group.
	Labels map[string]string

	// Logger hears who comes and goes, and of failures. Nil is silent.
	Logger *slog.Logger
}

// withDefaults fills in what was left zero, and reports every contradiction with what to
// change.
func (o Options) withDefaults() (Options, error) {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if faults := content.IsDNS1123Label(o.Name); len(faults) > 0 || len(o.Name) > 40 {
		wrong("%.80q cannot be the Name of a group: want a DNS label of 1 to 40 characters", o.Name)
	}
	number := func(name string, n *int, value, most int) {
		if *n == 0 {
			*n = value
		}
		if *n < 1 || *n > most {
			wrong("%s is %d: want 1 to %d, or 0 for %d", name, *n, most, value)
		}
	}
	text := func(name, value string) {
		if len(value) > mostText || !utf8.ValidString(value) {
			wrong("%s is %.80q (%d bytes): want UTF-8 of at most %d", name, value, len(value), mostText)
		}
	}
	text("Identity", o.Identity)
	text("Layout", o.Layout)
	number("Slots", &o.Slots, defaultSlots, mostSlots)
	number("Weight", &o.Weight, 1, mostWeight)
	if o.Patience == 0 {
		o.Patience = 10 * time.Second
	}
	err := lease.Options{
		Namespace: o.Namespace, Identity: &o.Identity, Labels: &o.Labels, Logger: &o.Logger,
		LeaseDuration: &o.LeaseDuration, RenewDeadline: &o.RenewDeadline, RetryPeriod: &o.RetryPeriod, Longest: longest,
	}.Complete()
	errs = append(errs, err)
	if err == nil && o.RenewDeadline < 2*o.RetryPeriod {
		errs = append(errs, fmt.Errorf("RetryPeriod is %s and RenewDeadline %s: lower RetryPeriod, so that a renewal can be tried twice", o.RetryPeriod, o.RenewDeadline))
	}
	if err := errors.Join(errs...); err != nil {
		return o, fmt.Errorf("membership: %w", err)
	}
	return o, nil
}

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

// Defaults and limits of [Options].
const (
	defaultSlots = 1024

	mostSlots  = 1 << 14
	mostWeight = 1000
	longest    = time.Hour // longest time that a member may be silent
	mostText   = 256       // maximum length in bytes of an identity or a layout
)

// Options configure a member of a group. Namespace and Name are required.
type Options struct {
	// Namespace is the namespace of the group's Leases. Name is the group's name: a DNS label of at most 40
	// characters. It is the value of a label on the Leases and the prefix of their names.
	Namespace string
	Name      string

	// Identity must be unique among the members. The default consists of the host name, the process ID and
	// a random string. If a member exits uncleanly and restarts with the same identity, it has to wait
	// until its old Lease expires. An identity may have up to 256 bytes of UTF-8.
	Identity string

	// Slots is the number of slots in the group; the default is 1024. Layout describes, in up to 256 bytes of
	// UTF-8, everything else that members must agree on, such as key names. A member whose Slots or Layout
	// differ from those of the working members takes no slots; see Status.Refusal.
	Slots  int
	Layout string

	// Weight is this member's share of the work relative to the others, from 1 to 1000. The default is 1.
	Weight int

	// Patience is how long running work may continue after its slot is assigned to another member. After
	// that, the work's context is canceled, and the slot is handed over once the work has ended. The
	// default is 10 s; if negative, the context is canceled immediately.
	Patience time.Duration

	// LeaseDuration, RenewDeadline and RetryPeriod are as in leaderelection.Options, with the same
	// defaults: 15 s, 10 s and 2 s. The maximum is one hour.
	LeaseDuration time.Duration
	RenewDeadline time.Duration
	RetryPeriod   time.Duration

	// Labels are set on our Lease in addition to the group label.
	Labels map[string]string

	// Logger logs failures, and members that join or leave. If it is nil, nothing is logged.
	Logger *slog.Logger
}

// withDefaults returns o with defaults filled in, or an error that lists all invalid options.
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

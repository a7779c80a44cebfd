package membership

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Defaults and limits of options.
const (
	defaultSlots    = 1024
	defaultDuration = 15 * time.Second

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
	if faults := content.IsDNS1123Label(o.Namespace); len(faults) > 0 {
		wrong("%.80q cannot be a Namespace: %s; say where the Leases are, for example config.Config.Namespace", o.Namespace, strings.Join(faults, "; "))
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
	for _, fault := range validation.ValidateLabels(o.Labels, field.NewPath("Labels")) {
		wrong("%w", fault)
	}
	number("Slots", &o.Slots, defaultSlots, mostSlots)
	number("Weight", &o.Weight, 1, mostWeight)
	duration := func(name string, d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
		if *d < time.Millisecond || *d > longest {
			wrong("%s is %s: want %s to %s, or 0 for %s", name, *d, time.Millisecond, longest, value)
		}
	}
	duration("LeaseDuration", &o.LeaseDuration, defaultDuration)
	duration("RenewDeadline", &o.RenewDeadline, 10*time.Second)
	duration("RetryPeriod", &o.RetryPeriod, 2*time.Second)
	if o.Patience == 0 {
		o.Patience = 10 * time.Second
	}
	o.LeaseDuration = (o.LeaseDuration + time.Second - 1).Truncate(time.Second)
	if len(errs) == 0 && o.LeaseDuration <= o.RenewDeadline {
		wrong("RenewDeadline is %s and LeaseDuration %s: raise LeaseDuration, so that work can stop before others begin", o.RenewDeadline, o.LeaseDuration)
	}
	if len(errs) == 0 && o.RenewDeadline < 2*o.RetryPeriod {
		wrong("RetryPeriod is %s and RenewDeadline %s: lower RetryPeriod, so that a renewal can be tried twice", o.RetryPeriod, o.RenewDeadline)
	}
	if len(errs) > 0 {
		return o, fmt.Errorf("membership: %w", errors.Join(errs...))
	}
	if o.Identity == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown"
		}
		o.Identity = fmt.Sprintf("%s_%d_%s", host, os.Getpid(), rand.Text()[:10])
	}
	o.Labels = maps.Clone(o.Labels)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

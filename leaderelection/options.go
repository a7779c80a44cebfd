package leaderelection

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// spread is the largest fraction of the retry period by which candidates wait longer,
// so that they do not all ask at once.
const spread = 0.2

// shortest is the shortest duration of the options, and longest the longest: a Lease
// holds 32 bits of seconds.
const (
	shortest = time.Millisecond
	longest  = math.MaxInt32 * time.Second
)

// Options name the lease and say how patient everybody is. Name and Namespace are
// required.
type Options struct {
	// Namespace and Name are those of the Lease. It is created if it does not
	// exist.
	Namespace string
	Name      string

	// Identity names the holder in the Lease. Default: the host name, the process
	// ID and a random text.
	Identity string

	// LeaseDuration is how long others wait after they saw the last renewal. It is
	// rounded up to whole seconds. Default 15 s.
	LeaseDuration time.Duration

	// RenewDeadline is how long the leader goes on working after the last renewal.
	// It must be less than LeaseDuration: the difference is the time the work has
	// to stop. Default 10 s.
	RenewDeadline time.Duration

	// RetryPeriod is the time between two attempts, to renew or to become
	// leader; candidates wait up to a fifth longer. Default 2 s.
	RetryPeriod time.Duration

	// ReleaseOnCancel gives the lease back when the work has ended, so the next
	// leader need not wait. Nil means yes, since the work has ended by then. Set it
	// to new(false) if something outside the process goes on.
	ReleaseOnCancel *bool

	// Labels are put on a Lease that is created.
	Labels map[string]string

	// Logger hears who leads, and of failures. Nil is silent.
	Logger *slog.Logger
}

// withDefaults fills in what was left zero, and reports every contradiction
// with what to change.
func (o Options) withDefaults() (Options, error) {
	var errs []error
	if o.Name == "" {
		errs = append(errs, errors.New("no Name: say which Lease all candidates share"))
	}
	if faults := content.IsDNS1123Subdomain(o.Name); o.Name != "" && len(faults) > 0 {
		errs = append(errs, fmt.Errorf("%.80q cannot be the Name of a Lease: %s", o.Name, strings.Join(faults, "; ")))
	}
	if o.Namespace == "" {
		errs = append(errs, errors.New("no Namespace: say where the Lease is, for example config.Config.Namespace"))
	}
	if faults := content.IsDNS1123Label(o.Namespace); o.Namespace != "" && len(faults) > 0 {
		errs = append(errs, fmt.Errorf("%.80q cannot be a Namespace: %s", o.Namespace, strings.Join(faults, "; ")))
	}
	for _, fault := range validation.ValidateLabels(o.Labels, field.NewPath("Labels")) {
		errs = append(errs, fault)
	}
	def := func(name string, d *time.Duration, value time.Duration) {
		switch {
		case *d < 0:
			errs = append(errs, fmt.Errorf("%s is %s: want a positive duration, or 0 for %s", name, *d, value))
		case *d == 0:
			*d = value
		case *d < shortest:
			errs = append(errs, fmt.Errorf("%s is %s: want at least %s; was the unit forgotten?", name, *d, shortest))
		case *d > longest:
			errs = append(errs, fmt.Errorf("%s is %s: a Lease has room for %s", name, *d, longest))
		}
	}
	def("LeaseDuration", &o.LeaseDuration, 15*time.Second)
	def("RenewDeadline", &o.RenewDeadline, 10*time.Second)
	def("RetryPeriod", &o.RetryPeriod, 2*time.Second)
	if len(errs) > 0 {
		return o, fmt.Errorf("leader election: %w", errors.Join(errs...))
	}
	o.LeaseDuration = (o.LeaseDuration + time.Second - 1).Truncate(time.Second)
	o.Labels = maps.Clone(o.Labels)
	if o.LeaseDuration <= o.RenewDeadline {
		errs = append(errs, fmt.Errorf("RenewDeadline is %s and LeaseDuration %s: raise LeaseDuration, so that the work can stop before others begin", o.RenewDeadline, o.LeaseDuration))
	}
	if jittered := time.Duration(float64(o.RetryPeriod) * (1 + spread)); o.RenewDeadline <= jittered {
		errs = append(errs, fmt.Errorf("RetryPeriod is %s, with jitter %s, and RenewDeadline %s: lower RetryPeriod, so that a renewal can be tried twice", o.RetryPeriod, jittered, o.RenewDeadline))
	}
	if o.Identity == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown"
		}
		o.Identity = fmt.Sprintf("%s_%d_%s", host, os.Getpid(), rand.Text()[:10])
	}
	if o.ReleaseOnCancel == nil {
		o.ReleaseOnCancel = new(true)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if len(errs) > 0 {
		return o, fmt.Errorf("leader election: %w", errors.Join(errs...))
	}
	return o, nil
}

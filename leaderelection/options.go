package leaderelection

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/millrace-dev/millrace/internal/lease"
)

// spread is the maximum fraction of RetryPeriod that candidates add to their delay, so that they do not
// all send requests at once.
const spread = 0.2

// longest is the longest duration that fits in a Lease: a 32-bit number of seconds.
const longest = math.MaxInt32 * time.Second

// Options configure an Elector. Name and Namespace are required.
type Options struct {
	// Namespace and Name identify the Lease, which is created if it does not exist.
	Namespace string
	Name      string

	// Identity is the holder's name in the Lease. The default consists of the host name, the process ID and
	// a random string.
	Identity string

	// LeaseDuration is how long candidates wait after seeing the last renewal. It is rounded up to whole
	// seconds. The default is 15 s.
	LeaseDuration time.Duration

	// RenewDeadline is how long the leader keeps working after its last renewal. It must be less than
	// LeaseDuration; the difference is how long the work has to stop. The default is 10 s.
	RenewDeadline time.Duration

	// RetryPeriod is the interval between attempts to renew the lease or to become the leader; candidates
	// add up to a fifth to it. The default is 2 s.
	RetryPeriod time.Duration

	// ReleaseOnCancel releases the lease once the work has returned, so that the next leader does not have
	// to wait. Nil means true. Set it to new(false) if work may continue outside the process.
	ReleaseOnCancel *bool

	// Labels are set on a Lease created by the Elector.
	Labels map[string]string

	// Logger logs leader changes and failures. Nil discards them.
	Logger *slog.Logger
}

// withDefaults returns o with defaults filled in, or an error that lists all invalid options.
func (o Options) withDefaults() (Options, error) {
	var errs []error
	if o.Name == "" {
		errs = append(errs, errors.New("no Name: set it to the Lease that all candidates share"))
	}
	if faults := content.IsDNS1123Subdomain(o.Name); o.Name != "" && len(faults) > 0 {
		errs = append(errs, fmt.Errorf("%.80q cannot be the Name of a Lease: %s", o.Name, strings.Join(faults, "; ")))
	}
	err := lease.Options{
		Namespace: o.Namespace, Identity: &o.Identity, Labels: &o.Labels, Logger: &o.Logger,
		LeaseDuration: &o.LeaseDuration, RenewDeadline: &o.RenewDeadline, RetryPeriod: &o.RetryPeriod, Longest: longest,
	}.Complete()
	errs = append(errs, err)
	if jittered := time.Duration(float64(o.RetryPeriod) * (1 + spread)); err == nil && o.RenewDeadline <= jittered {
		errs = append(errs, fmt.Errorf("RetryPeriod is %s, with jitter %s, and RenewDeadline %s: lower RetryPeriod, so that a renewal can be tried twice", o.RetryPeriod, jittered, o.RenewDeadline))
	}
	if o.ReleaseOnCancel == nil {
		o.ReleaseOnCancel = new(true)
	}
	if err := errors.Join(errs...); err != nil {
		return o, fmt.Errorf("leader election: %w", err)
	}
	return o, nil
}

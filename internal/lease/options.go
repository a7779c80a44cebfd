package lease

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// DefaultDuration is the default for LeaseDuration.
const DefaultDuration = 15 * time.Second

// Options contains pointers to the options shared by elections and groups. See leaderelection.Options
// for their meaning.
type Options struct {
	Namespace string
	Identity  *string
	Labels    *map[string]string
	Logger    **slog.Logger

	LeaseDuration *time.Duration
	RenewDeadline *time.Duration
	RetryPeriod   *time.Duration
	Longest       time.Duration // upper limit for the three durations
}

// Complete sets defaults, rounds LeaseDuration up to whole seconds, and returns an error that lists all
// invalid options and how to fix them.
func (o Options) Complete() error {
	var errs []error
	wrong := func(err error) { errs = append(errs, err) }
	if faults := content.IsDNS1123Label(o.Namespace); len(faults) > 0 {
		wrong(fmt.Errorf("%.80q is not a valid Namespace: %s; set it to the namespace of the Leases, for example config.Config.Namespace", o.Namespace, strings.Join(faults, "; ")))
	}
	for _, fault := range validation.ValidateLabels(*o.Labels, field.NewPath("Labels")) {
		wrong(fault)
	}
	duration := func(name string, d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
		if *d < time.Millisecond || *d > o.Longest {
			wrong(fmt.Errorf("%s is %s: want %s to %s, or 0 for %s", name, *d, time.Millisecond, o.Longest, value))
		}
	}
	duration("LeaseDuration", o.LeaseDuration, DefaultDuration)
	duration("RenewDeadline", o.RenewDeadline, 10*time.Second)
	duration("RetryPeriod", o.RetryPeriod, 2*time.Second)
	*o.LeaseDuration = (*o.LeaseDuration + time.Second - 1).Truncate(time.Second)
	if len(errs) == 0 && *o.LeaseDuration <= *o.RenewDeadline {
		wrong(fmt.Errorf("RenewDeadline is %s and LeaseDuration %s: raise LeaseDuration, so that the work can stop before others start", *o.RenewDeadline, *o.LeaseDuration))
	}
	if *o.Identity == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown"
		}
		*o.Identity = fmt.Sprintf("%s_%d_%s", host, os.Getpid(), rand.Text()[:10])
	}
	*o.Labels = maps.Clone(*o.Labels)
	if *o.Logger == nil {
		*o.Logger = slog.New(slog.DiscardHandler)
	}
	return errors.Join(errs...)
}

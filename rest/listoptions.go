package rest

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// validateList finds contradictions that the server would refuse, or worse,
// would resolve silently. See "Resource versions" in the Kubernetes API
// concepts, and KEP-3157 for initial events.
func validateList(o metav1.ListOptions) error {
	var errs []error
	complain := func(bad bool, text string) {
		if bad {
			errs = append(errs, errors.New(text))
		}
	}
	complain(o.Watch, "the options ask for a watch: use Watch")
	complain(o.SendInitialEvents != nil, "sendInitialEvents is for a watch")
	complain(o.Continue != "" && o.ResourceVersion != "" && o.ResourceVersion != "0",
		"continue and resourceVersion contradict each other: the continue token stands for a resource version")
	complain(o.Continue != "" && o.ResourceVersionMatch != "", "continue and resourceVersionMatch contradict each other")
	complain(o.ResourceVersionMatch != "" && o.ResourceVersion == "", "resourceVersionMatch needs a resourceVersion")
	complain(o.ResourceVersionMatch == metav1.ResourceVersionMatchExact && o.ResourceVersion == "0",
		"no list can be exactly at resourceVersion \"0\", which means any: use NotOlderThan")
	return errors.Join(append(errs, validateCommon(o))...)
}

func validateWatch(o metav1.ListOptions) error {
	var errs []error
	complain := func(bad bool, text string) {
		if bad {
			errs = append(errs, errors.New(text))
		}
	}
	complain(o.Continue != "", "continue is for a list")
	complain(o.SendInitialEvents == nil && o.ResourceVersionMatch != "", "resourceVersionMatch on a watch needs sendInitialEvents")
	complain(o.SendInitialEvents != nil && o.ResourceVersionMatch != metav1.ResourceVersionMatchNotOlderThan,
		"sendInitialEvents needs resourceVersionMatch NotOlderThan")
	return errors.Join(append(errs, validateCommon(o))...)
}

func validateCommon(o metav1.ListOptions) error {
	var errs []error
	switch o.ResourceVersionMatch {
	case "", metav1.ResourceVersionMatchExact, metav1.ResourceVersionMatchNotOlderThan:
	default:
		errs = append(errs, fmt.Errorf("unknown resourceVersionMatch %q: want Exact or NotOlderThan", o.ResourceVersionMatch))
	}
	if o.Limit < 0 {
		errs = append(errs, fmt.Errorf("the limit %d is negative: use zero for none", o.Limit))
	}
	if o.TimeoutSeconds != nil && *o.TimeoutSeconds < 0 {
		errs = append(errs, fmt.Errorf("the timeout of %d s is negative: leave it out for none", *o.TimeoutSeconds))
	}
	return errors.Join(errs...)
}

package failure

import (
	"context"
	"errors"
	"reflect"
	"slices"
)

var joined = reflect.TypeOf(errors.Join(context.Canceled))

// Stopped reports whether ctx is done and err is due only to that. It returns false if err is the result of
// errors.Join and any of the joined errors has another reason.
func Stopped(ctx context.Context, err error) bool {
	if ctx.Err() == nil {
		return false
	}
	cause := context.Cause(ctx)
	for e := err; e != nil; e = errors.Unwrap(e) {
		if reflect.TypeOf(e).Comparable() && e == cause {
			return true
		}
		if reflect.TypeOf(e) == joined {
			return !slices.ContainsFunc(e.(interface{ Unwrap() []error }).Unwrap(), func(e error) bool { return !Stopped(ctx, e) })
		}
	}
	return errors.Is(err, context.Canceled) || errors.Is(err, cause)
}

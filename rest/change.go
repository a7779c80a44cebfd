package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/internal/jitter"
	"github.com/millrace-dev/millrace/internal/mergepatch"
	"github.com/millrace-dev/millrace/object"
)

// ChangeOptions say how Resource.Change writes. The zero value works.
type ChangeOptions struct {
	// Locked lets the server take the patch only if nobody has written the object since it
	// was read. It is needed where change adds to a list, or counts, and to take away a map
	// as a whole: without it each entry goes, and a map without entries may stay. A change of
	// finalizers or owner references is always locked.
	Locked bool

	// Patch are the options of the request that writes.
	Patch metav1.PatchOptions
}

// changeUntilDone is Resource.Change.
func (r *resource) changeUntilDone(ctx context.Context, key object.Key, change func(object.Object) error, opts ChangeOptions) (changed object.Object, err error) {
	var stop error // of change, which may be a conflict about something else
	err = RetryOnConflict(ctx, func() error {
		changed, err = r.change(ctx, key, func(o object.Object) error { stop = change(o); return stop }, opts)
		if stop != nil {
			return nil
		}
		return err
	})
	if stop != nil {
		return changed, stop
	}
	return changed, err
}

// change is one try of Change.
func (r *resource) change(ctx context.Context, key object.Key, change func(object.Object) error, opts ChangeOptions) (object.Object, error) {
	o, err := r.get(ctx, key, metav1.GetOptions{})
	if err != nil {
		return o, err
	}
	describe := func(err error) error { return fmt.Errorf("change %s: %w", r.describe(key), err) }
	before, err := mergepatch.Fields(o)
	if err != nil {
		return o, describe(err)
	}
	version := o.GetResourceVersion()
	if err := change(o); err != nil {
		return o, err
	}
	after, err := mergepatch.Fields(o)
	if err != nil {
		return o, describe(err)
	}
	shared := !opts.Locked || r.codec != nil && !r.codec.opts.Keep.Whole()
	patch, zeros := mergepatch.Between(before, after, reflect.TypeOf(o), shared)
	if len(patch) == 0 {
		return o, nil
	}
	if r.codec != nil {
		for _, path := range mergepatch.Lists(patch, before) {
			if !r.codec.opts.Keep.KeepsAll(path) {
				return o, describe(fmt.Errorf("%s may have been read in part, which would replace the whole list: use a Resource without Keep", path))
			}
		}
	}
	if opts.Locked || zeros || mergepatch.Contended(patch) {
		mergepatch.Carry(patch, version)
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return o, describe(err)
	}
	return r.patch(ctx, key, types.MergePatchType, body, opts.Patch)
}

const (
	conflictTries = 5
	conflictWait  = 10 * time.Millisecond // before the second try; doubled each time
)

// RetryOnConflict calls try until it returns no conflict (apierrors.IsConflict), at most
// five times, and returns its last error. It waits 10 ms after the first conflict, twice
// as long after each other, and up to a half more at random, since those who met once
// would meet again. try must read what it writes anew. It ends with ctx.
func RetryOnConflict(ctx context.Context, try func() error) error {
	wait := conflictWait
	for n := 1; ; n++ {
		err := try()
		if n == conflictTries || !apierrors.IsConflict(err) {
			return err
		}
		timer := time.NewTimer(wait + jitter.Below(wait/2))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w, while waiting to try again: %w", context.Cause(ctx), err)
		}
		wait *= 2
	}
}

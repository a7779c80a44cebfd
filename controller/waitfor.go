package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/internal/printable"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// WaitFor waits until the cache contains an object under key for which reached returns true, and returns
// that object, which is shared and must not be changed:
//
//	web, err := widgets.WaitFor(ctx, key, func(w *Widget) bool {
//		return meta.IsStatusConditionTrue(w.Status.Conditions, "Ready")
//	})
//
// Use it in programs and tests. Reconcilers should not call it, because waiting blocks a worker; they
// should return and let the change trigger the next reconcile.
//
// WaitFor does not poll: it calls reached in the caller's goroutine, first with the cached object and then
// after each change to it. If the object changes quickly, reached may not see every state. It must be fast
// and must not modify the object. If the object does not exist yet, WaitFor waits for it.
//
// The error includes the object, the file and line of the call, the last cached state with its phase and
// conditions, and the reason why the wait failed. It wraps
//
//   - the cause of ctx, if ctx is done;
//   - a not-found error (apierrors.IsNotFound), if the object was present and has been deleted or
//     replaced;
//   - shard.ErrMoved or shard.ErrLost, if objects are sharded (factory.Scope.Shard), the object
//     was there, and another process may have taken it over, which cannot be distinguished from a
//     deletion;
//   - sharedinformer.ErrNotSynced, if the cache fails to sync for Options.SyncPatience;
//   - sharedinformer.ErrStopped, if the informer has stopped;
//   - sharedinformer.ErrNotWatched, if the cache does not include the namespace.
//
// It also fails if the kind bypasses the cache.
func (c *Client[T]) WaitFor(ctx context.Context, key object.Key, reached func(T) bool) (T, error) {
	place := failure.Place(1)
	if reached == nil {
		panic(fmt.Sprintf("%s: the function passed to WaitFor of %s is nil", place, c))
	}
	return as[T](c.plain().waitFor(ctx, key, func(o object.Object) bool { return reached(o.(T)) }, place))
}

func (c *client) waitFor(ctx context.Context, key object.Key, reached func(object.Object) bool, place string) (object.Object, error) {
	w := &waitFor{client: c, key: key, reached: reached}
	var err error
	if c.informer == nil {
		err = errNoCache
	} else if err = c.informer.WaitUntil(ctx, func() bool { return w.look(ctx) }); err == nil {
		err = w.err
	}
	if err != nil {
		return nil, fmt.Errorf("wait for %s %s (%s): %s: %w", c, object.FormatKey(key), place, w.state(), err)
	}
	return w.last, nil
}

var errNoCache = errors.New("the kind bypasses the cache (factory.Options.DisableFor), so its changes are not watched: use Read")

// waitFor is a single call to WaitFor.
type waitFor struct {
	client  *client
	key     object.Key
	reached func(object.Object) bool

	last object.Object // the last object passed to reached
	seen bool
	uid  types.UID
	rv   string
	err  error
}

// look reports whether the wait is over.
func (w *waitFor) look(ctx context.Context) bool {
	i := w.client.informer
	if !i.Watches(w.key.Namespace) {
		w.err = sharedinformer.ErrNotWatched
		return true
	}
	head, cached := i.Heads().Get(w.key)
	switch {
	case w.seen && (!cached || head.GetUID() != w.uid):
		if !cached {
			w.err = w.unknown(ctx)
		}
		if w.err == nil {
			kind := w.client.resource.Kind()
			w.err = apierrors.NewNotFound(schema.GroupResource{Group: kind.Group, Resource: kind.Kind}, object.FormatKey(w.key))
		}
		return true
	case !cached, w.seen && head.GetResourceVersion() == w.rv:
		return false
	}
	o, err := i.Open(head)
	if err != nil {
		w.err = err
		return true
	}
	w.last, w.seen, w.uid, w.rv = o, true, head.GetUID(), head.GetResourceVersion()
	return w.reached(w.last)
}

// unknown returns an error explaining why an object that the cache has dropped may still exist, or nil
// if it does not exist.
func (w *waitFor) unknown(ctx context.Context) error {
	if why := w.client.unknown(ctx, w.key); why != nil {
		return why
	}
	i := w.client.informer
	if scope := i.Scope(); !scope.Everything() && (!scope.Key.Fixed() || !i.HoldsIn(scope.Key.Hash(w.last), w.key.Namespace)) {
		return shard.ErrMoved
	}
	return nil
}

// state describes the last object seen. It includes only fields that may be shown to anyone who may know
// that the object exists.
func (w *waitFor) state() string {
	if !w.seen {
		return "never seen"
	}
	state := "last seen at resource version " + w.rv
	if w.last.GetDeletionTimestamp() != nil {
		state += ", being deleted"
	}
	return state + conditionsOf(w.last)
}

// mostConditions limits the number of conditions in a message.
const mostConditions = 8

// conditionsOf returns an object's phase and conditions, such as ", phase Pending, Ready=False
// (ContainersNotReady)", or "" if it has none.
func conditionsOf(o object.Object) string {
	body, err := json.Marshal(o)
	if err != nil {
		return ""
	}
	var is struct {
		Status struct {
			Phase      any
			Conditions []struct {
				Type   string
				Status metav1.ConditionStatus
				Reason string
			}
		}
	}
	if json.Unmarshal(body, &is) != nil {
		return ""
	}
	var b strings.Builder
	if phase, ok := is.Status.Phase.(string); ok && phase != "" {
		fmt.Fprintf(&b, ", phase %.60s", plain(phase))
	}
	for n, c := range is.Status.Conditions {
		if n == mostConditions {
			fmt.Fprintf(&b, ", and %d more conditions", len(is.Status.Conditions)-n)
			break
		}
		fmt.Fprintf(&b, ", %.60s=%.60s", plain(c.Type), plain(string(c.Status)))
		if c.Reason != "" {
			fmt.Fprintf(&b, " (%.60s)", plain(c.Reason))
		}
	}
	return b.String()
}

// plain returns text with control characters replaced, because they could garble a terminal.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if printable.Control(r) {
			return ' '
		}
		return r
	}, text)
}

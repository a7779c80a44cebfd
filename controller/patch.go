package controller

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/internal/mergepatch"
	"github.com/millrace-dev/millrace/object"
)

// Patch sends what change does to o, and nothing where it does nothing. change is called
// with a copy of o, which may come from the cache; to change o itself is an error. It returns the object
// as it is then; o itself if nothing was sent.
//
// It is a JSON merge patch (RFC 7386), mostly without a resource version: others may write other
// fields at the same time, and of a field that both write the last stays. Each entry of a
// map is a field, also where it is the last that goes: a map without entries may stay, which
// PatchLocked takes away. A list is sent whole, so that what others add to it at the same time
// is lost. Finalizers and owner references are such lists: a patch of them carries the resource version of
// o, and fails with a conflict (apierrors.IsConflict) if o is not the latest. So does one with a field that was zero
// before and may be required; see PatchStatus.
// The status is not written where the kind has a status subresource: that is what
// PatchStatus does.
//
// Where the cache has parts of objects, or what a transform made of them, what it has can
// be changed, but for lists that it has in part.
func Patch[T object.Object](ctx context.Context, c *Client[T], o T, change func(T) error) (T, error) {
	mustChange(change)
	return as[T](c.plain().patchBy(ctx, o, onObjects(change), false))
}

// PatchLocked is Patch with the resource version of o: it fails with a conflict
// (apierrors.IsConflict) where o is not the latest. A reconcile returns that error and is
// called again when the cache has another version. Outside of one, rest.Resource.Change tries
// again by itself.
func PatchLocked[T object.Object](ctx context.Context, c *Client[T], o T, change func(T) error) (T, error) {
	mustChange(change)
	return as[T](c.plain().patchBy(ctx, o, onObjects(change), true))
}

func (c *client) patchBy(ctx context.Context, o object.Object, change func(object.Object) error, locked bool) (object.Object, error) {
	if err := c.given("patch", o); err != nil {
		return o, err
	}
	body, err := c.difference(o, change, locked)
	if err != nil || body == nil {
		return o, err
	}
	patched, err := c.wrote(ctx, object.KeyOf(o), o.GetResourceVersion(), nil)(c.resource.Patch(ctx, object.KeyOf(o), types.MergePatchType, body, metav1.PatchOptions{}))
	return written(o, patched, err)
}

// written returns what a write has made of an object, the object itself if it failed.
func written(before, after object.Object, err error) (object.Object, error) {
	if err != nil {
		return before, err
	}
	return after, nil
}

// difference is what Patch sends; nil for nothing.
func (c *client) difference(o object.Object, change func(object.Object) error, locked bool) ([]byte, error) {
	wanted, before, after, err := changed(o, change)
	if err != nil || before == nil {
		return nil, err
	}
	describe := func(err error) error {
		return fmt.Errorf("patch %s %s: %w", c, object.FormatKey(object.KeyOf(o)), err)
	}
	shared := !locked || c.informer != nil && (c.informer.Source().Altered || !c.informer.Source().Kept.Whole())
	differences, zeros := mergepatch.Between(before, after, reflect.TypeOf(o), shared)
	if len(differences) == 0 {
		return nil, nil
	}
	if object.KeyOf(wanted) != object.KeyOf(o) {
		return nil, describe(fmt.Errorf("change made %s of its key", object.FormatKey(object.KeyOf(wanted))))
	}
	if c.informer != nil {
		for _, path := range mergepatch.Lists(differences, before) {
			if c.informer.Source().Altered || !c.informer.Source().Kept.KeepsAll(path) {
				return nil, describe(fmt.Errorf("the cache may have %s in part, which would replace the whole list: use Apply", path))
			}
		}
	}
	if locked || zeros || mergepatch.Contended(differences) {
		mergepatch.Carry(differences, o.GetResourceVersion())
	}
	return json.Marshal(differences)
}

// PatchStatus sends what change does to the status of o, and nothing where it
// does nothing. change is called with a copy of o, which may come from the cache; to change o itself is an error.
// Differences outside of the status are not sent. It returns the object as
// it is then; o itself if nothing was sent.
//
// It is a JSON merge patch (RFC 7386) of the status subresource without a
// resource version: others may write other fields of the status at the same time,
// and of a field or a list that both write the last stays. Where that is not
// good enough, use PatchStatusLocked.
//
// A part of the status in which nothing was set before is sent whole. Fields in it that Go
// writes although they are zero, for want of omitempty, may be required, and the server may not
// have them. Since others may have set them meanwhile, a patch that has such a field carries the
// resource version of o, and fails with a conflict (apierrors.IsConflict) where o is not the
// latest. No other patch does.
//
// Where the cache has parts of the status, or what a transform made of it, that is
// refused, as in Client.Update: a list that is sent replaces the one that is there.
func PatchStatus[T object.Object](ctx context.Context, c *Client[T], o T, change func(T) error) (T, error) {
	mustChange(change)
	return as[T](c.plain().patchStatus(ctx, o, onObjects(change), false))
}

// PatchStatusLocked is PatchStatus with the resource version of o, as PatchLocked is Patch with
// it: it fails with a conflict (apierrors.IsConflict) if o is not the latest. Use it where replicas
// share the work, and a status must not land over that of a later owner: a replica that was
// suspended in the middle of a write sends it when it wakes.
func PatchStatusLocked[T object.Object](ctx context.Context, c *Client[T], o T, change func(T) error) (T, error) {
	mustChange(change)
	return as[T](c.plain().patchStatus(ctx, o, onObjects(change), true))
}

func (c *client) patchStatus(ctx context.Context, o object.Object, change func(object.Object) error, locked bool) (object.Object, error) {
	if err := c.given("patch the status of", o); err != nil {
		return o, err
	}
	if c.informer != nil && (c.informer.Source().Altered || !c.informer.Source().Kept.KeepsAll("status")) {
		if err := c.whole("patch the status of", o); err != nil {
			return o, err
		}
	}
	patch, err := statusPatch(o, change, locked)
	if err != nil || patch == nil {
		return o, err
	}
	patched, err := c.wrote(ctx, object.KeyOf(o), o.GetResourceVersion(), nil)(c.resource.Subresource("status").Patch(ctx, object.KeyOf(o), types.MergePatchType, patch, metav1.PatchOptions{}))
	return written(o, patched, err)
}

// statusPatch is what PatchStatus sends; nil for nothing.
func statusPatch(o object.Object, change func(object.Object) error, locked bool) ([]byte, error) {
	_, before, after, err := changed(o, change)
	if err != nil || before == nil {
		return nil, err
	}
	differences, zeros := mergepatch.Between(statusOf(before), statusOf(after), reflect.TypeOf(o), true)
	if len(differences) == 0 {
		return nil, nil
	}
	if locked || zeros {
		mergepatch.Carry(differences, o.GetResourceVersion())
	}
	return json.Marshal(differences)
}

// statusOf returns the status alone of an object's fields. One that is not an object counts as empty.
func statusOf(fields map[string]any) map[string]any {
	status, _ := fields["status"].(map[string]any)
	return map[string]any{"status": status}
}

// changed calls change with a copy of o. It returns the copy, and the fields of o and of the copy, which
// are nil if both are the same in JSON. It fails if change has changed o.
func changed(o object.Object, change func(object.Object) error) (wanted object.Object, before, after map[string]any, err error) {
	was, err := json.Marshal(o)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("encode %s: %w", object.FormatKey(object.KeyOf(o)), err)
	}
	wanted = copyOf(o)
	if err := change(wanted); err != nil {
		return nil, nil, nil, err
	}
	if is, err := json.Marshal(o); err != nil || !bytes.Equal(was, is) {
		return nil, nil, nil, errWrongObject(o)
	}
	becomes, err := json.Marshal(wanted)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("encode %s: %w", object.FormatKey(object.KeyOf(o)), err)
	}
	if bytes.Equal(was, becomes) {
		return wanted, nil, nil, nil
	}
	if before, err = mergepatch.Decode(was); err == nil {
		after, err = mergepatch.Decode(becomes)
	}
	return wanted, before, after, err
}

// errWrongObject is the error of a function that was to change its argument, a copy, and has changed the
// object that the caller gave: a variable outside of the function.
func errWrongObject(o object.Object) error {
	return fmt.Errorf("the function has changed the %T %s that was given, and not its argument, which is a copy: change the argument", o, object.FormatKey(object.KeyOf(o)))
}

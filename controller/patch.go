package controller

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/internal/mergepatch"
	"github.com/millrace-dev/millrace/object"
)

// Patch calls change with a copy of o, which may come from the cache, and sends the differences as a
// patch. If there are none, it makes no request. Modifying o itself is an error. Patch returns the
// current object, which is o itself if nothing was sent.
//
// The patch is a JSON merge patch (RFC 7386), usually without a resource version: other clients may
// write other fields concurrently, and if two clients write the same field, the last write wins. Each map
// entry is treated as a separate field. If the last entry is removed, an empty map may remain; PatchLocked
// removes it. A list is sent as a whole, so entries that others add concurrently are lost. To protect
// finalizers and owner references, which are lists, a patch that changes them carries o's resource version
// and fails with a conflict (apierrors.IsConflict) if o is not the latest version. If o was not read from
// the server, such a patch fails without making a request. The same applies to fields that were previously
// zero and that the server may require; see [PatchStatus]. The status is not written if the kind has a
// status subresource; use [PatchStatus].
//
// If the cache contains partial or transformed objects, only the cached fields can be patched, and no
// incomplete lists. The patch then contains no zero fields that were not cached.
func Patch[T object.Object](ctx context.Context, c *Client[T], o T, change func(T) error) (T, error) {
	mustChange(change)
	return as[T](c.plain().patchBy(ctx, o, onObjects(change), false))
}

// PatchLocked is [Patch] with o's resource version: it fails with a conflict (apierrors.IsConflict) if o
// is not the latest version. A reconciler should return that error; it is called again once the cache
// has another version. Outside a reconcile, use rest.Resource.Change, which retries conflicts.
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

// written returns the object as written, or, if the write failed, the object before the write.
func written(before, after object.Object, err error) (object.Object, error) {
	if err != nil {
		return before, err
	}
	return after, nil
}

// difference returns the patch to send for [Patch], or nil if nothing changed.
func (c *client) difference(o object.Object, change func(object.Object) error, locked bool) ([]byte, error) {
	wanted, before, after, err := changed(o, change)
	if err != nil || before == nil {
		return nil, err
	}
	describe := func(err error) error {
		return fmt.Errorf("patch %s %s: %w", c, object.FormatKey(object.KeyOf(o)), err)
	}
	shared := !locked || c.altered() || !c.resource.Kept().Whole()
	differences, zeros := mergepatch.Between(before, after, reflect.TypeOf(o), shared, c.kept)
	if len(differences) == 0 {
		return nil, nil
	}
	if object.KeyOf(wanted) != object.KeyOf(o) {
		return nil, describe(fmt.Errorf("change altered the key to %s", object.FormatKey(object.KeyOf(wanted))))
	}
	for _, path := range mergepatch.Lists(differences, before) {
		if !c.kept(path) {
			return nil, describe(fmt.Errorf("the cached %s may be incomplete and would replace the whole list: use Apply", path))
		}
	}
	if locked || zeros || mergepatch.Contended(differences) {
		if unread(o) {
			return nil, describe(errUnread)
		}
		mergepatch.Carry(differences, o.GetResourceVersion())
	}
	return json.Marshal(differences)
}

// kept reports whether the objects that c reads contain the field at path as it is on the server.
func (c *client) kept(path string) bool {
	return !c.altered() && c.resource.Kept().KeepsAll(path)
}

// altered reports whether a user's function has modified the cached objects.
func (c *client) altered() bool { return c.informer != nil && c.informer.Source().Altered }

// errUnread means that a patch must carry a resource version, but the caller constructed the object
// instead of reading it.
var errUnread = errors.New("the object has no resource version, so the patch could overwrite changes by others: read it first")

// unread reports whether o was not read from the server. Objects from some aggregated servers have no
// resource version.
func unread(o object.Object) bool { return o.GetResourceVersion() == "" && o.GetUID() == "" }

// PatchStatus calls change with a copy of o, which may come from the cache, and sends the differences in
// the status as a patch. If there are none, it makes no request. It ignores differences outside the
// status. Modifying o itself is an error. PatchStatus returns the current object, which is o itself if
// nothing was sent.
//
// The patch is a JSON merge patch (RFC 7386) of the status subresource without a resource version: other
// clients may write other status fields concurrently, and if two clients write the same field or list,
// the last write wins. If that is not acceptable, use [PatchStatusLocked].
//
// A status field that was previously empty is sent as a whole, including any zero fields inside it that
// lack omitempty. The server may require those, but other clients may have set them in the meantime. So a
// patch with such a field carries o's resource version and fails with a conflict (apierrors.IsConflict) if
// o is not the latest version, or without making a request if o was not read from the server. Other patches
// do not carry a resource version.
//
// If the kind has no status subresource, the server responds with a not-found error
// (apierrors.IsNotFound). PatchStatus fails, as [Client.Update] does, if the cached status is partial or
// transformed, because a list in the patch replaces the whole list.
func PatchStatus[T object.Object](ctx context.Context, c *Client[T], o T, change func(T) error) (T, error) {
	mustChange(change)
	return as[T](c.plain().patchStatus(ctx, o, onObjects(change), false))
}

// PatchStatusLocked is [PatchStatus] with o's resource version: it fails with a conflict
// (apierrors.IsConflict) if o is not the latest version. Use it if replicas share the work: if a replica is
// suspended in the middle of a write, it sends the write after it resumes, and must not overwrite a status
// written by the new owner.
func PatchStatusLocked[T object.Object](ctx context.Context, c *Client[T], o T, change func(T) error) (T, error) {
	mustChange(change)
	return as[T](c.plain().patchStatus(ctx, o, onObjects(change), true))
}

func (c *client) patchStatus(ctx context.Context, o object.Object, change func(object.Object) error, locked bool) (object.Object, error) {
	if err := c.given("patch the status of", o); err != nil {
		return o, err
	}
	if !c.kept("status") {
		if err := c.whole("patch the status of", o); err != nil {
			return o, err
		}
	}
	patch, err := statusPatch(o, change, locked)
	if errors.Is(err, errUnread) {
		err = fmt.Errorf("patch the status of %s %s: %w", c, object.FormatKey(object.KeyOf(o)), err)
	}
	if err != nil || patch == nil {
		return o, err
	}
	patched, err := c.wrote(ctx, object.KeyOf(o), o.GetResourceVersion(), nil)(c.resource.Subresource("status").Patch(ctx, object.KeyOf(o), types.MergePatchType, patch, metav1.PatchOptions{}))
	return written(o, patched, err)
}

// statusPatch returns the patch to send for [PatchStatus], or nil if nothing changed.
func statusPatch(o object.Object, change func(object.Object) error, locked bool) ([]byte, error) {
	_, before, after, err := changed(o, change)
	if err != nil || before == nil {
		return nil, err
	}
	differences, zeros := mergepatch.Between(statusOf(before), statusOf(after), reflect.TypeOf(o), true, nil)
	if len(differences) == 0 {
		return nil, nil
	}
	if locked || zeros {
		if unread(o) {
			return nil, errUnread
		}
		mergepatch.Carry(differences, o.GetResourceVersion())
	}
	return json.Marshal(differences)
}

// statusOf returns just the status from an object's fields. If the status is not a JSON object, it is
// treated as empty.
func statusOf(fields map[string]any) map[string]any {
	status, _ := fields["status"].(map[string]any)
	return map[string]any{"status": status}
}

// changed calls change with a copy of o. It returns the copy and the fields of both, which are nil if both
// encode to the same JSON. It fails if change modified o.
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

// errWrongObject returns the error for a change function that changed the caller's object, through a
// captured variable, instead of its argument.
func errWrongObject(o object.Object) error {
	return fmt.Errorf("the function changed the original %T %s instead of its argument, which is a copy: change the argument", o, object.FormatKey(object.KeyOf(o)))
}

package rest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// Get reads one object. It is sent again after 429 and 503 with a Retry-After, at
// most ten times within 30 seconds.
func (r *Resource[T]) Get(ctx context.Context, key object.Key, opts metav1.GetOptions) (T, error) {
	c := call[T]{verb: "get", method: http.MethodGet, key: key, repeat: idempotent}
	return r.named(ctx, c, &opts)
}

// Create creates obj, in its own namespace or that of the resource, and returns it
// as the server has it. obj is not changed. Create is sent again only after 429 with
// a Retry-After, when the server has not begun with it. After any other failure the
// object may have been created.
//
// On a subresource such as "eviction", the name of obj says which object is meant. If
// the server answers with a mere success instead of an object, the result is obj
// itself.
func (r *Resource[T]) Create(ctx context.Context, obj T, opts metav1.CreateOptions) (T, error) {
	c := call[T]{verb: "create", method: http.MethodPost, object: &obj}
	if err := r.takeKey(&c, obj); err != nil {
		return obj, err
	}
	if r.subresource == "" {
		c.key.Name = ""
		return r.withOptions(ctx, c, &opts)
	}
	return r.named(ctx, c, &opts)
}

// Update replaces an object and returns it as the server has it. obj is not
// changed. If obj has a resource version, the server refuses to overwrite newer
// changes (apierrors.IsConflict), and the call is repeated as Get is. If it has none,
// Update overwrites whatever is there, and is repeated as Create is. Never send an
// object that was read only in part; see Keep.
func (r *Resource[T]) Update(ctx context.Context, obj T, opts metav1.UpdateOptions) (T, error) {
	c := call[T]{verb: "update", method: http.MethodPut, object: &obj}
	if err := r.takeKey(&c, obj); err != nil {
		return obj, err
	}
	if r.codec != nil && !r.codec.writable() {
		return obj, fmt.Errorf("update %s: %w", r.describe(c.key), errPartial)
	}
	if obj.GetResourceVersion() != "" {
		c.repeat = idempotent
	}
	return r.named(ctx, c, &opts)
}

// Patch changes an object and returns it as the server has it. The types of patches
// are those of k8s.io/apimachinery/pkg/types: JSON patch, merge patch, strategic
// merge patch (not for custom resources) and apply. An apply patch is repeated as
// Get is. The others may do something else the second time, and are repeated as
// Create is.
func (r *Resource[T]) Patch(ctx context.Context, key object.Key, pt types.PatchType, patch []byte, opts metav1.PatchOptions) (T, error) {
	c := call[T]{verb: "patch", method: http.MethodPatch, key: key, body: patch, contentType: string(pt)}
	var none T
	switch pt {
	case types.JSONPatchType, types.MergePatchType, types.StrategicMergePatchType:
	case types.ApplyYAMLPatchType:
		if cmp.Or(opts.FieldManager, r.client.fieldManager) == "" {
			return none, fmt.Errorf("patch %s: an apply patch needs a field manager", r.describe(key))
		}
		c.repeat = idempotent
	default:
		return none, fmt.Errorf("patch %s: unknown patch type %q", r.describe(key), pt)
	}
	if len(patch) == 0 {
		return none, fmt.Errorf("patch %s: the patch is empty", r.describe(key))
	}
	return r.named(ctx, c, &opts)
}

// Apply sends obj as a server-side apply: the server sets the fields of obj, and
// opts.FieldManager owns them, or Config.FieldManager if that is empty. One of the
// two is required. An object that does not exist is created.
//
// What Go writes of a typed object although nobody has set it is not sent, so that nobody
// owns it: null, and a struct that is empty where its tag says omitempty, such as a status
// or the resources of a container. A zero number, text or bool without omitempty is sent,
// since it may be meant; and one with omitempty is not, since Go does not write it. To send
// such a zero, or null, use an unstructured object, or Patch with an apply patch.
func (r *Resource[T]) Apply(ctx context.Context, obj T, opts metav1.ApplyOptions) (T, error) {
	c := call[T]{verb: "apply", method: http.MethodPatch, repeat: idempotent}
	if err := r.takeKey(&c, obj); err != nil {
		return obj, err
	}
	if r.kindErr != nil {
		return obj, fmt.Errorf("apply %s: %w", r, &source.ResolveError{Kind: r.kind, Err: r.kindErr})
	}
	body, _, err := r.codec.encode(obj, false)
	if err == nil {
		body, err = applied(obj, body)
	}
	if err != nil {
		return obj, fmt.Errorf("apply %s: %w", r.describe(c.key), err)
	}
	// JSON is YAML, and the type that every server since 1.16 knows.
	return r.Patch(ctx, c.key, types.ApplyYAMLPatchType, body, opts.ToPatchOptions())
}

// Delete deletes an object, which may live on for its grace period or until its
// finalizers are done. Delete is repeated as Get is.
func (r *Resource[T]) Delete(ctx context.Context, key object.Key, opts metav1.DeleteOptions) error {
	if key.Name == "" {
		return fmt.Errorf("delete %s: the name is empty", r.describe(key))
	}
	body, err := deleteBody(opts)
	if err != nil {
		return fmt.Errorf("delete %s: %w", r.describe(key), err)
	}
	return r.none(ctx, call[T]{
		verb: "delete", method: http.MethodDelete, key: key, body: body, contentType: wire.MediaJSON, repeat: idempotent,
	})
}

// DeleteCollection deletes the objects that list selects; without a selector, all
// objects in the namespace of the resource. It is repeated as Create is.
func (r *Resource[T]) DeleteCollection(ctx context.Context, opts metav1.DeleteOptions, list metav1.ListOptions) error {
	if err := validateList(list); err != nil {
		return fmt.Errorf("delete collection of %s: %w", r, err)
	}
	body, err := deleteBody(opts)
	if err != nil {
		return fmt.Errorf("delete collection of %s: %w", r, err)
	}
	c := call[T]{verb: "delete collection of", method: http.MethodDelete, body: body, contentType: wire.MediaJSON}
	if c.query, err = query(&list); err != nil {
		return fmt.Errorf("delete collection of %s: %w", r, err)
	}
	return r.none(ctx, c)
}

// named sends a call about one object, whose name must be given.
func (r *Resource[T]) named(ctx context.Context, c call[T], opts any) (T, error) {
	if c.key.Name == "" {
		var none T
		return none, fmt.Errorf("%s %s: the name is empty", c.verb, r.describe(c.key))
	}
	return r.withOptions(ctx, c, opts)
}

func (r *Resource[T]) withOptions(ctx context.Context, c call[T], opts any) (T, error) {
	r.client.complete(opts)
	var err error
	if c.query, err = query(opts); err != nil {
		var none T
		return none, fmt.Errorf("%s %s: %w", c.verb, r.describe(c.key), err)
	}
	return r.one(ctx, c)
}

// complete fills in what the options of a write leave to the Config.
func (c *Client) complete(opts any) {
	set := func(manager, validation *string) {
		*manager, *validation = cmp.Or(*manager, c.fieldManager), cmp.Or(*validation, c.fieldValidation)
	}
	switch o := opts.(type) {
	case *metav1.CreateOptions:
		set(&o.FieldManager, &o.FieldValidation)
	case *metav1.UpdateOptions:
		set(&o.FieldManager, &o.FieldValidation)
	case *metav1.PatchOptions:
		set(&o.FieldManager, &o.FieldValidation)
	}
}

// takeKey takes the key of the call from the object to be sent.
func (r *Resource[T]) takeKey(c *call[T], obj T) error {
	v := reflect.ValueOf(obj)
	if !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return fmt.Errorf("%s %s: the object is nil", c.verb, r)
	}
	c.key = object.KeyOf(obj)
	if _, bare := any(obj).(*metav1.PartialObjectMetadata); bare && c.method != http.MethodPatch {
		return fmt.Errorf("%s %s: %w", c.verb, r.describe(c.key), errMetadataOnly)
	}
	return nil
}

var (
	errMetadataOnly = errors.New("metadata alone would replace the whole object: use Patch or Apply")
	errPartial      = errors.New("a part of the object would replace the whole: use Patch, or a Resource without Keep")
)

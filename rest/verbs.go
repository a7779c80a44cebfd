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

func (r *resource) get(ctx context.Context, key object.Key, opts metav1.GetOptions) (object.Object, error) {
	c := call{verb: "get", method: http.MethodGet, key: key, repeat: idempotent}
	return r.named(ctx, c, &opts)
}

func (r *resource) create(ctx context.Context, obj object.Object, opts metav1.CreateOptions) (object.Object, error) {
	c := call{verb: "create", method: http.MethodPost, object: obj}
	if err := r.takeKey(&c, obj); err != nil {
		return obj, err
	}
	if r.subresource == "" {
		c.key.Name = ""
		return r.withOptions(ctx, c, &opts)
	}
	return r.named(ctx, c, &opts)
}

func (r *resource) update(ctx context.Context, obj object.Object, opts metav1.UpdateOptions) (object.Object, error) {
	c := call{verb: "update", method: http.MethodPut, object: obj}
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

func (r *resource) patch(ctx context.Context, key object.Key, pt types.PatchType, patch []byte, opts metav1.PatchOptions) (object.Object, error) {
	c := call{verb: "patch", method: http.MethodPatch, key: key, body: patch, contentType: string(pt)}
	var none object.Object
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

func (r *resource) apply(ctx context.Context, obj object.Object, opts metav1.ApplyOptions) (object.Object, error) {
	c := call{verb: "apply", method: http.MethodPatch, repeat: idempotent}
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
	return r.patch(ctx, c.key, types.ApplyYAMLPatchType, body, opts.ToPatchOptions())
}

func (r *resource) delete(ctx context.Context, key object.Key, opts metav1.DeleteOptions) (Deletion, error) {
	if key.Name == "" {
		return Deletion{}, fmt.Errorf("delete %s: the name is empty", r.describe(key))
	}
	body, err := deleteBody(opts)
	if err != nil {
		return Deletion{}, fmt.Errorf("delete %s: %w", r.describe(key), err)
	}
	return r.none(ctx, call{
		verb: "delete", method: http.MethodDelete, key: key, body: body, contentType: wire.MediaJSON, repeat: idempotent,
	})
}

func (r *resource) deleteCollection(ctx context.Context, opts metav1.DeleteOptions, list metav1.ListOptions) error {
	if err := validateList(list); err != nil {
		return fmt.Errorf("delete collection of %s: %w", r, err)
	}
	body, err := deleteBody(opts)
	if err != nil {
		return fmt.Errorf("delete collection of %s: %w", r, err)
	}
	c := call{verb: "delete collection of", method: http.MethodDelete, body: body, contentType: wire.MediaJSON}
	if c.query, err = query(&list); err != nil {
		return fmt.Errorf("delete collection of %s: %w", r, err)
	}
	_, err = r.none(ctx, c)
	return err
}

// named sends a call about one object, whose name must be given.
func (r *resource) named(ctx context.Context, c call, opts any) (object.Object, error) {
	if c.key.Name == "" {
		var none object.Object
		return none, fmt.Errorf("%s %s: the name is empty", c.verb, r.describe(c.key))
	}
	return r.withOptions(ctx, c, opts)
}

func (r *resource) withOptions(ctx context.Context, c call, opts any) (object.Object, error) {
	r.client.complete(opts)
	var err error
	if c.query, err = query(opts); err != nil {
		var none object.Object
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
func (r *resource) takeKey(c *call, obj object.Object) error {
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

package rest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/internal/confidential"
	"github.com/millrace-dev/millrace/internal/jitter"
	"github.com/millrace-dev/millrace/internal/mergepatch"
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
	// JSON is valid YAML, and every server since 1.16 accepts this type.
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
	c := call{verb: "delete", method: http.MethodDelete, key: key, body: body, contentType: wire.MediaJSON}
	if p := opts.Preconditions; p != nil && (p.UID != nil || p.ResourceVersion != nil) {
		c.repeat = idempotent // otherwise, the second request could delete a later object of that name
	}
	return r.none(ctx, c)
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

// named sends a call for a single object. It fails if the key has no name.
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

// complete fills in a write's empty options with values from the Config.
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

// takeKey sets the call's key to obj's.
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
	errPartial      = errors.New("a partial object would replace the whole: use Patch, or a Resource without Keep")
)

// ChangeOptions are the options for [Resource.Change]. The zero value is valid.
type ChangeOptions struct {
	// Locked makes the server reject the patch if the object was written after it was read.
	// Set it if change appends to a list, increments a counter, or removes an entire map; if Locked is not
	// set, the patch removes the map's entries one by one and may leave an empty map. Changes to finalizers
	// and owner references are always locked.
	Locked bool

	// Patch contains the options for the write request.
	Patch metav1.PatchOptions
}

func (r *resource) changeUntilDone(ctx context.Context, key object.Key, change func(object.Object) error, opts ChangeOptions) (changed object.Object, err error) {
	var stop error // returned by change; may be a conflict on another object
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

// change makes a single attempt for Change.
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
	patch, zeros := mergepatch.Between(before, after, reflect.TypeOf(o), !opts.Locked || !r.kept().Whole(), r.kept().KeepsAll)
	if len(patch) == 0 {
		return o, nil
	}
	for _, path := range mergepatch.Lists(patch, before) {
		if !r.kept().KeepsAll(path) {
			return o, describe(fmt.Errorf("%s may be incomplete, and would replace the whole list: use a Resource without Keep", path))
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
	conflictWait  = 10 * time.Millisecond // delay before the second attempt; doubled each time
)

// RetryOnConflict calls try until it returns no conflict (apierrors.IsConflict), at
// most five times, and returns its last error. It waits 10 ms after the first conflict and doubles the wait
// after each further one, adding up to half at random so that competing writers spread out. try must reread
// the object each time. RetryOnConflict stops if ctx is done.
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

func (r *resource) stream(ctx context.Context, key object.Key, opts runtime.Object) (io.ReadCloser, error) {
	c := call{verb: "get", method: http.MethodGet, key: key, repeat: idempotent, bytes: true}
	if key.Name == "" {
		return nil, fmt.Errorf("%s %s: the name is empty", c.verb, r.describe(key))
	}
	if v := reflect.ValueOf(opts); v.IsValid() && !(v.Kind() == reflect.Pointer && v.IsNil()) {
		var err error
		if c.query, err = query(opts); err != nil {
			return nil, fmt.Errorf("%s %s: %w", c.verb, r.describe(key), err)
		}
	}
	ctx = confidential.Mark(ctx) // a program behind the server's proxy may have a path like that of a list
	req, resp, err := r.send(ctx, c)
	if err != nil {
		return nil, err
	}
	return &byteStream{ReadCloser: resp.Body, ctx: ctx, request: req}, nil
}

// byteStream adds the request to read errors.
type byteStream struct {
	io.ReadCloser
	ctx     context.Context
	request *request
}

func (s *byteStream) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = s.request.wrap(withCause(s.ctx, err))
	}
	return n, err
}

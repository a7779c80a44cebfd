package apiservertest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/millrace-dev/millrace/object"
)

func (c *call) patch() error {
	kind := types.PatchType(c.bodyType())
	switch kind {
	case types.JSONPatchType, types.MergePatchType, types.ApplyPatchType:
	case types.StrategicMergePatchType:
		if c.coll.custom() {
			return c.unsupportedPatch()
		}
	default:
		return c.unsupportedPatch()
	}
	if err := c.checkPatchOptions(kind); err != nil {
		return err
	}
	body, err := c.body()
	if err != nil {
		return err
	}
	if kind == types.ApplyPatchType {
		return c.apply(body)
	}
	v, err := c.storeUpdate(func(cur object.Object) (object.Object, error) {
		obj, err := c.patched(kind, cur, body)
		if err != nil {
			return nil, err
		}
		return c.owned(cur, obj)
	})
	if err != nil {
		return err
	}
	return c.sendVersion(http.StatusOK, v)
}

func (c *call) unsupportedPatch() error {
	types := "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
	if !c.coll.custom() {
		types += ", application/strategic-merge-patch+json"
	}
	return unsupportedMediaType("the body of the request was in an unknown format - accepted media types include: " + types)
}

// patched applies a patch to cur and returns the result.
func (c *call) patched(kind types.PatchType, cur object.Object, body []byte) (object.Object, error) {
	return c.patchedAs(kind, c.coll.GVK(), c.coll.New, cur, body)
}

// patchedAs is like patched, for an object of a different kind.
func (c *call) patchedAs(kind types.PatchType, is object.GVK, empty func() object.Object, cur object.Object, body []byte) (object.Object, error) {
	cur.GetObjectKind().SetGroupVersionKind(is)
	before, err := json.Marshal(cur)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	after, err := applyPatch(kind, before, body, empty())
	if err != nil {
		return nil, err
	}
	obj := empty()
	if err := c.decodeJSON(after, obj); err != nil {
		return nil, apierrors.NewInvalid(schema.GroupKind{}, "", field.ErrorList{field.Invalid(field.NewPath("patch"), string(after), err.Error())})
	}
	if kind != types.StrategicMergePatchType { // a strategic merge patch ignores the kind
		if err := checkKind(is, obj); err != nil {
			return nil, err
		}
	}
	return obj, c.checkPlace(obj)
}

// applyPatch patches an object in JSON form. It returns BadRequest for a malformed patch, and Invalid for a
// patch that cannot be applied to the object.
func applyPatch(kind types.PatchType, before, body []byte, typed object.Object) (after []byte, err error) {
	switch kind {
	case types.JSONPatchType:
		var ops []struct{ Op, Path, From string } // the library validates each operation only when applying it
		if err := json.Unmarshal(body, &ops); err != nil {
			return nil, unreadablePatch(err)
		}
		patch, err := jsonpatch.DecodePatch(body)
		if err != nil {
			return nil, unreadablePatch(err)
		}
		if after, err = patch.Apply(before); err != nil {
			return nil, unfitPatch()
		}
		return after, nil
	case types.MergePatchType:
		var fields map[string]any // the library does not report the JSON error
		if err = json.Unmarshal(body, &fields); err == nil {
			after, err = jsonpatch.MergePatch(before, body)
		}
	case types.StrategicMergePatchType:
		after, err = strategicpatch.StrategicMergePatch(before, body, typed)
		switch err {
		case nil, mergepatch.ErrBadJSONDoc, mergepatch.ErrBadPatchFormatForPrimitiveList, mergepatch.ErrBadPatchFormatForRetainKeys,
			mergepatch.ErrBadPatchFormatForSetElementOrderList, mergepatch.ErrUnsupportedStrategicMergePatchFormat:
		case mergepatch.ErrNoListOfLists, mergepatch.ErrPatchContentNotMatchRetainKeys:
			return nil, unfitPatch()
		default: // such as a list item without its key
			return nil, unclassified(err.Error())
		}
	}
	if err != nil {
		return nil, unreadablePatch(err)
	}
	return after, nil
}

func unreadablePatch(err error) error {
	return apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
}

func unfitPatch() error {
	return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", "", 0, false)
}

// checkKind rejects the result of a patch that changes the kind.
func checkKind(is object.GVK, obj object.Object) error {
	var errs field.ErrorList
	kind, version := obj.GetObjectKind().GroupVersionKind().Kind, obj.GetObjectKind().GroupVersionKind().GroupVersion()
	if kind != "" && kind != is.Kind {
		errs = append(errs, field.Invalid(field.NewPath("kind"), kind, "must be "+is.Kind))
	}
	if !version.Empty() && version != is.GroupVersion() {
		errs = append(errs, field.Invalid(field.NewPath("apiVersion"), version.String(), "must be "+is.GroupVersion().String()))
	}
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: is.Group, Kind: cmp.Or(kind, is.Kind)}, obj.GetName(), errs)
}

// apply handles server-side apply, creating the object if it does not exist.
func (c *call) apply(body []byte) error {
	patch, err := readPatch(body)
	if err != nil {
		return err
	}
	const tries = 10
	for try := 1; ; try++ {
		v, err := c.storeUpdate(func(cur object.Object) (object.Object, error) {
			obj, err := c.applied(cur, patch.DeepCopy())
			if err != nil {
				return nil, err
			}
			return obj, c.checkPlace(obj)
		})
		if apierrors.IsNotFound(err) && c.subresource == "" {
			if err = c.applyNew(patch.DeepCopy()); apierrors.IsAlreadyExists(err) && try < tries {
				continue // another request has just created it
			}
			return err
		}
		if err != nil {
			return err
		}
		return c.sendVersion(http.StatusOK, v)
	}
}

func readPatch(body []byte) (*unstructured.Unstructured, error) {
	patch := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(body, &patch.Object); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding YAML: %v", err))
	}
	return patch, nil
}

// applyNew creates the applied object. A patch with a UID is meant for an existing object, so it fails with
// Conflict.
func (c *call) applyNew(patch *unstructured.Unstructured) error {
	obj, err := c.applied(nil, patch)
	if err != nil {
		return err
	}
	if uid := obj.GetUID(); uid != "" {
		return apierrors.NewConflict(c.coll.GroupResource(), c.name,
			fmt.Errorf("uid mismatch: the provided object specified uid %s, and no existing object was found", uid))
	}
	if err := c.checkPlace(obj); err != nil {
		return err
	}
	c.dropDecided(obj)
	return c.sendNew(obj)
}

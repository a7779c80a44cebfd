package apiserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"

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

// patched applies a patch to cur and gives the result.
func (c *call) patched(kind types.PatchType, cur object.Object, body []byte) (object.Object, error) {
	return c.patchedAs(kind, c.coll.GVK(), c.coll.New, cur, body)
}

// patchedAs is patched for an object of another kind than that of the resource.
func (c *call) patchedAs(kind types.PatchType, is object.GVK, empty func() object.Object, cur object.Object, body []byte) (object.Object, error) {
	cur.GetObjectKind().SetGroupVersionKind(is)
	before, err := json.Marshal(cur)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	var after []byte
	switch kind {
	case types.JSONPatchType:
		after, err = applyJSONPatch(before, body)
	case types.MergePatchType:
		var fields map[string]any // the library does not say what is wrong with its JSON
		if err = json.Unmarshal(body, &fields); err == nil {
			after, err = jsonpatch.MergePatch(before, body)
		}
	case types.StrategicMergePatchType:
		after, err = strategicpatch.StrategicMergePatch(before, body, empty())
	}
	if err != nil {
		return nil, patchError(err)
	}
	obj := empty()
	if err := decodeJSON(after, obj); err != nil {
		return nil, err
	}
	return obj, c.checkPlace(obj)
}

func applyJSONPatch(before, body []byte) ([]byte, error) {
	patch, err := jsonpatch.DecodePatch(body)
	if err != nil {
		return nil, err
	}
	return patch.Apply(before)
}

func patchError(err error) error {
	var status apierrors.APIStatus
	switch {
	case errors.As(err, &status):
		return err
	case errors.Is(err, jsonpatch.ErrTestFailed), errors.Is(err, jsonpatch.ErrMissing):
		return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", "", 0, false)
	}
	return apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
}

// apply is server-side apply: the object is created where it does not exist.
func (c *call) apply(body []byte) error {
	patch, err := readPatch(body)
	if err != nil {
		return err
	}
	v, err := c.storeUpdate(func(cur object.Object) (object.Object, error) {
		obj, err := c.applied(cur, patch.DeepCopy())
		if err != nil {
			return nil, err
		}
		return obj, c.checkPlace(obj)
	})
	switch {
	case apierrors.IsNotFound(err) && c.subresource == "":
		return c.applyNew(patch)
	case err != nil:
		return err
	}
	return c.sendVersion(http.StatusOK, v)
}

func readPatch(body []byte) (*unstructured.Unstructured, error) {
	patch := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(body, &patch.Object); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding YAML: %v", err))
	}
	return patch, nil
}

// applyNew creates what is applied, unless it has a UID: then it means an object that is gone.
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

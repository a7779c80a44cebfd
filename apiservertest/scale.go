package apiservertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace-dev/millrace/object"
)

// Scale specifies the fields behind a scale subresource, as in a CustomResourceDefinition, by paths such as
// ".spec.replicas".
type Scale struct {
	SpecReplicas   string
	StatusReplicas string
	Selector       string // a label selector as a string; empty if there is none
}

// scaleOfWorkload is the [Scale] for built-in kinds, whose selector is an object.
var scaleOfWorkload = &Scale{SpecReplicas: ".spec.replicas", StatusReplicas: ".status.replicas", Selector: ".spec.selector"}

var scaleKind = autoscalingv1.SchemeGroupVersion.WithKind("Scale")

func newScale() object.Object { return &autoscalingv1.Scale{} }

func fieldsOf(path string) []string { return strings.Split(strings.TrimPrefix(path, "."), ".") }

// shapeless returns an object's content, which the caller must not modify.
func shapeless(obj object.Object) (map[string]any, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u.Object, nil
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
}

// scaleOf returns an object's Scale.
func (r *Resource) scaleOf(obj object.Object) (*autoscalingv1.Scale, error) {
	content, err := shapeless(obj)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	wanted, is, err := unstructured.NestedInt64(content, fieldsOf(r.Scale.SpecReplicas)...)
	switch {
	case err != nil:
		return nil, apierrors.NewInternalError(err)
	case !is && r.custom():
		return nil, apierrors.NewInternalError(fmt.Errorf("the spec replicas field %q does not exist", r.Scale.SpecReplicas))
	case !is:
		wanted = 1 // the real server's default
	}
	has, _, err := unstructured.NestedInt64(content, fieldsOf(r.Scale.StatusReplicas)...)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	scale := &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{
			Name: obj.GetName(), Namespace: obj.GetNamespace(), UID: obj.GetUID(),
			ResourceVersion: obj.GetResourceVersion(), CreationTimestamp: obj.GetCreationTimestamp(),
		},
		Spec:   autoscalingv1.ScaleSpec{Replicas: int32(wanted)},
		Status: autoscalingv1.ScaleStatus{Replicas: int32(has)},
	}
	scale.Status.Selector, err = r.selectorOf(content)
	return scale, err
}

func (r *Resource) selectorOf(content map[string]any) (string, error) {
	if r.Scale.Selector == "" {
		return "", nil
	}
	value, _, err := unstructured.NestedFieldNoCopy(content, fieldsOf(r.Scale.Selector)...)
	if err != nil {
		return "", apierrors.NewInternalError(err)
	}
	switch v := value.(type) {
	case string:
		return v, nil
	case map[string]any:
		var terms metav1.LabelSelector
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(v, &terms); err != nil {
			return "", apierrors.NewInternalError(err)
		}
		selector, err := metav1.LabelSelectorAsSelector(&terms)
		if err != nil {
			return "", apierrors.NewInternalError(err)
		}
		return selector.String(), nil
	}
	return "", nil
}

// scaled returns obj with scale's replica count and, if set, its resource version.
func (r *Resource) scaled(obj object.Object, scale *autoscalingv1.Scale) (object.Object, error) {
	content, err := shapeless(clone(obj))
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	if err := unstructured.SetNestedField(content, int64(scale.Spec.Replicas), fieldsOf(r.Scale.SpecReplicas)...); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	result := r.New()
	if u, ok := result.(*unstructured.Unstructured); ok {
		u.Object = content
	} else if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, result); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	if scale.ResourceVersion != "" {
		result.SetResourceVersion(scale.ResourceVersion)
	}
	result.SetUID(scale.UID)
	return result, nil
}

// scale serves the scale subresource.
func (c *call) scale() error {
	if c.verb == "get" {
		c.server.mu.Lock()
		v, err := c.coll.stored(c.key())
		c.server.mu.Unlock()
		if err != nil {
			return err
		}
		return c.sendScale(v)
	}
	change, err := c.scaleChange()
	if err != nil {
		return err
	}
	v, err := c.storeUpdate(change)
	if err != nil {
		return err
	}
	return c.sendScale(v)
}

func (c *call) sendScale(v *version) error {
	scale, err := c.coll.scaleOf(v.readAs(c.reading).obj)
	if err != nil {
		return err
	}
	return c.sendBody(scaleKind, scale)
}

// scaleChange returns a function that applies the request to the scaled object.
func (c *call) scaleChange() (func(cur object.Object) (object.Object, error), error) {
	kind := types.PatchType(c.bodyType())
	if c.verb == "update" {
		scale := &autoscalingv1.Scale{}
		if err := c.bodyOf(scaleKind, scale); err != nil {
			return nil, err
		}
		return func(cur object.Object) (object.Object, error) { return c.rescaled(cur, scale) }, c.checkPlace(scale)
	}
	switch kind {
	case types.JSONPatchType, types.MergePatchType, types.ApplyPatchType:
	case types.StrategicMergePatchType:
		if c.coll.custom() {
			return nil, c.unsupportedPatch()
		}
	default:
		return nil, c.unsupportedPatch()
	}
	if err := c.checkPatchOptions(kind); err != nil {
		return nil, err
	}
	body, err := c.body()
	if err != nil {
		return nil, err
	}
	if kind == types.ApplyPatchType {
		return c.scaleApply(body)
	}
	return func(cur object.Object) (object.Object, error) {
		before, err := c.coll.scaleOf(cur)
		if err != nil {
			return nil, err
		}
		after, err := c.patchedAs(kind, scaleKind, newScale, before, body)
		if err != nil {
			return nil, err
		}
		return c.rescaled(cur, after.(*autoscalingv1.Scale))
	}, nil
}

// rescaled returns cur changed according to scale, with updated managed fields.
func (c *call) rescaled(cur object.Object, scale *autoscalingv1.Scale) (object.Object, error) {
	if n := scale.Spec.Replicas; n < 0 && c.coll.custom() {
		return nil, apierrors.NewInvalid(c.coll.GVK().GroupKind(), c.name, field.ErrorList{field.Invalid(
			field.NewPath(c.coll.Scale.SpecReplicas), n, "should be a non-negative integer")})
	} else if n < 0 {
		return nil, apierrors.NewInvalid(scaleKind.GroupKind(), c.name, field.ErrorList{field.Invalid(
			field.NewPath("spec", "replicas"), n, "must be greater than or equal to 0")})
	}
	obj, err := c.coll.scaled(cur, scale)
	if err != nil {
		return nil, err
	}
	return c.owned(cur, obj)
}

// scaleApply handles server-side apply of a Scale, which sets one field of the object.
func (c *call) scaleApply(body []byte) (func(cur object.Object) (object.Object, error), error) {
	patch, err := readPatch(body)
	if err != nil {
		return nil, err
	}
	if is := patch.GroupVersionKind(); is != scaleKind {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("invalid object type: %v", is))
	}
	raw, err := json.Marshal(patch.Object)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	var wants struct {
		Spec struct{ Replicas *int32 }
	}
	if err := json.Unmarshal(raw, &wants); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return func(cur object.Object) (object.Object, error) {
		part := &unstructured.Unstructured{Object: map[string]any{}}
		part.SetGroupVersionKind(c.coll.GVK())
		part.SetName(patch.GetName())
		part.SetUID(patch.GetUID())
		part.SetResourceVersion(patch.GetResourceVersion())
		if n := wants.Spec.Replicas; n != nil {
			if err := unstructured.SetNestedField(part.Object, int64(*n), fieldsOf(c.coll.Scale.SpecReplicas)...); err != nil {
				return nil, apierrors.NewInternalError(err)
			}
		}
		obj, err := c.applied(cur, part)
		if err == nil && c.coll.custom() { // Kubernetes 1.36 fails here as well
			err = unclassified(fmt.Sprintf("failed to convert new object (%s/%s; %s, Kind=%s) to proper version: request to convert CR to an invalid group/version: %s",
				patch.GetNamespace(), patch.GetName(), scaleKind.GroupVersion(), scaleKind.Kind, scaleKind.GroupVersion()))
		}
		return obj, err
	}, nil
}

// complete checks the paths.
func (s *Scale) complete() error {
	for _, path := range []string{s.SpecReplicas, s.StatusReplicas} {
		if !strings.HasPrefix(path, ".") {
			return errors.New(`the paths of a scale begin with a dot, such as ".spec.replicas"`)
		}
	}
	return nil
}

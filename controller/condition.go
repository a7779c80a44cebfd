package controller

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/millrace-dev/millrace/object"
)

// SetCondition sets a condition in the status of o, which may come from the cache. If nothing would
// change, it makes no request. It returns the current object, which is o itself if nothing was sent.
//
// LastTransitionTime changes only if the condition's status does; it is then set to the time in condition,
// or to the current time if that is zero. An ObservedGeneration of 0 is replaced with o's generation. Other
// conditions are kept. To make several status changes in one request, use meta.SetStatusCondition in
// [PatchStatus].
//
// The patch contains the whole list of conditions and o's resource version. If o is not the latest
// version, SetCondition fails with a conflict (apierrors.IsConflict), which the reconciler should
// return. SetCondition also fails if the condition lacks its Type, Status or Reason, or if T has no
// Status.Conditions of type []metav1.Condition; Pods, for example, have their own condition type.
func SetCondition[T object.Object](ctx context.Context, c *Client[T], o T, condition metav1.Condition) (T, error) {
	return as[T](c.plain().setCondition(ctx, o, condition))
}

func (c *client) setCondition(ctx context.Context, o object.Object, condition metav1.Condition) (object.Object, error) {
	if err := c.given("set a condition of", o); err != nil {
		return o, err
	}
	describe := func(err error) error {
		return fmt.Errorf("set condition %q of %s %s: %w", condition.Type, c, object.FormatKey(object.KeyOf(o)), err)
	}
	if condition.Type == "" || condition.Status == "" || condition.Reason == "" {
		return o, describe(errors.New("a condition needs a Type, a Status and a Reason: set them"))
	}
	if condition.ObservedGeneration == 0 {
		condition.ObservedGeneration = o.GetGeneration()
	}
	return c.patchStatus(ctx, o, func(o object.Object) error {
		if err := changeConditions(o, func(all *[]metav1.Condition) { meta.SetStatusCondition(all, condition) }); err != nil {
			return describe(err)
		}
		return nil
	}, true)
}

// changeConditions calls change with o's conditions.
func changeConditions(o object.Object, change func(*[]metav1.Condition)) error {
	if u, ok := o.(*unstructured.Unstructured); ok {
		return changeUntypedConditions(u, change)
	}
	field := reflect.Indirect(reflect.ValueOf(o))
	for _, name := range []string{"Status", "Conditions"} {
		field = fieldOf(field, name)
	}
	wanted := reflect.TypeFor[[]metav1.Condition]()
	if field.Kind() != reflect.Slice || !field.CanSet() || !field.Type().ConvertibleTo(wanted) {
		return fmt.Errorf("%T has no Status.Conditions of type %v: use PatchStatus", o, wanted)
	}
	change(field.Addr().Convert(reflect.PointerTo(wanted)).Interface().(*[]metav1.Condition))
	return nil
}

// fieldOf returns a field of a struct or struct pointer, allocating the struct if the pointer is nil. It
// returns the zero Value if there is no such field.
func fieldOf(v reflect.Value, name string) reflect.Value {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() && v.CanSet() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	field, _ := v.Type().FieldByName(name)
	found, err := v.FieldByIndexErr(field.Index) // FieldByName would panic on a nil embedded pointer
	if err != nil || len(field.Index) == 0 {
		return reflect.Value{}
	}
	return found
}

// changeUntypedConditions is changeConditions for unstructured objects. It does not rewrite unchanged
// conditions, and in changed ones it preserves fields that metav1.Condition lacks.
func changeUntypedConditions(u *unstructured.Unstructured, change func(*[]metav1.Condition)) error {
	list, _, err := unstructured.NestedSlice(u.Object, "status", "conditions")
	if err != nil {
		return err
	}
	var all, before []metav1.Condition
	if err := errors.Join(transcode(list, &all), transcode(list, &before)); err != nil {
		return err
	}
	change(&all)
	changed := make([]any, len(all))
	for n, condition := range all {
		switch {
		case n >= len(before):
			changed[n], err = untyped(condition, nil)
		case equality.Semantic.DeepEqual(before[n], condition):
			changed[n] = list[n]
		default:
			changed[n], err = untyped(condition, list[n])
		}
		if err != nil {
			return err
		}
	}
	return unstructured.SetNestedSlice(u.Object, changed, "status", "conditions")
}

// conditionFields are the fields of metav1.Condition.
var conditionFields = []string{"type", "status", "observedGeneration", "lastTransitionTime", "reason", "message"}

// untyped returns the fields of a condition, plus any fields of old that metav1.Condition lacks.
func untyped(condition metav1.Condition, old any) (fields map[string]any, err error) {
	if err := transcode(condition, &fields); err != nil {
		return nil, err
	}
	others, _ := old.(map[string]any)
	for name, value := range others {
		if !slices.Contains(conditionFields, name) {
			fields[name] = value
		}
	}
	return fields, nil
}

// transcode copies from into to via JSON.
func transcode(from, to any) error {
	body, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, to)
}

package controller_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/object"
)

var budget = &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "b", Generation: 1}}

func TestSetCondition(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		c := controller.ClientFor[*policyv1.PodDisruptionBudget](e.Factory)
		e.Start()
		b := controllertest.Put(e, budget)
		sent := func() int { return e.Server.Stats().Requests("patch", "poddisruptionbudgets") }
		ready := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Computed"}

		b, err := controller.SetCondition(e.Context(), c, b, ready)
		require.NoError(t, err)
		first := *meta.FindStatusCondition(b.Status.Conditions, "Ready")
		require.Equal(t, b.Generation, first.ObservedGeneration)
		require.False(t, first.LastTransitionTime.IsZero())
		e.Settle(time.Hour)
		before := sent()
		same, err := controller.SetCondition(e.Context(), c, b, ready)
		require.NoError(t, err)
		require.Same(t, b, same)
		require.Equal(t, before, sent(), "nothing is sent for nothing")

		ready.Message = "all of them"
		b, err = controller.SetCondition(e.Context(), c, b, ready)
		require.NoError(t, err)
		require.Equal(t, first.LastTransitionTime.Time.UTC(), b.Status.Conditions[0].LastTransitionTime.Time.UTC(), "its status is the same")
		ready.Status = metav1.ConditionFalse
		stale := b
		b, err = controller.SetCondition(e.Context(), c, b, ready)
		require.NoError(t, err)
		require.True(t, b.Status.Conditions[0].LastTransitionTime.After(first.LastTransitionTime.Time))

		_, err = controller.SetCondition(e.Context(), c, stale, metav1.Condition{Type: "Other", Status: metav1.ConditionTrue, Reason: "R"})
		require.True(t, apierrors.IsConflict(err), "the other condition would be lost: %v", err)
		b, err = controller.SetCondition(e.Context(), c, b, metav1.Condition{Type: "Other", Status: metav1.ConditionTrue, Reason: "R"})
		require.NoError(t, err)
		require.Len(t, b.Status.Conditions, 2)

		for _, lacks := range []metav1.Condition{{}, {Type: "Ready"}, {Type: "Ready", Status: "True"}, {Type: "Ready", Reason: "R"}} {
			_, err = controller.SetCondition(e.Context(), c, b, lacks)
			require.ErrorContains(t, err, "of poddisruptionbudgets.policy shop/b: a condition needs a Type, a Status and a Reason: set them")
		}
		_, err = controller.SetCondition(e.Context(), c, nil, ready)
		require.ErrorContains(t, err, "the object is nil")

		controllertest.Delete[*policyv1.PodDisruptionBudget](e, object.KeyOf(b))
		ready.Status = metav1.ConditionUnknown
		_, err = controller.SetCondition(e.Context(), c, b, ready)
		require.True(t, apierrors.IsNotFound(err))
	})
}

// Objects without a Go type can have conditions. If a kind has no conditions, or different ones, the
// error says so.
func TestSetConditionOfOtherTypes(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		untyped := controller.ClientWith(e.Factory, factory.For[*unstructured.Unstructured]{Kind: policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget")})
		pods, maps := controller.ClientFor[*corev1.Pod](e.Factory), controller.ClientFor[*corev1.ConfigMap](e.Factory)
		heads := controller.ClientWith(e.Factory, factory.For[*metav1.PartialObjectMetadata]{Kind: policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget")})
		e.Start()
		ready := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Computed"}
		controllertest.Put(e, budget)
		for range 2 {
			u, ok := untyped.Copy(object.KeyOf(budget))
			require.True(t, ok)
			_, err := controller.SetCondition(e.Context(), untyped, u, ready)
			require.NoError(t, err)
			e.Settle(time.Minute)
		}
		require.EqualValues(t, 1, e.Server.Stats().Requests("patch", "poddisruptionbudgets"))
		require.Len(t, controllertest.Get[*policyv1.PodDisruptionBudget](e, object.KeyOf(budget)).Status.Conditions, 1)

		_, err := controller.SetCondition(e.Context(), pods, controllertest.Put(e, pod("a")), ready)
		require.ErrorContains(t, err, `set condition "Ready" of pods shop/a: *v1.Pod has no Status.Conditions of type []v1.Condition: use PatchStatus`)
		_, err = controller.SetCondition(e.Context(), maps, controllertest.Put(e, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "m"}}), ready)
		require.ErrorContains(t, err, "*v1.ConfigMap has no Status.Conditions")
		head, ok := heads.Copy(object.KeyOf(budget))
		require.True(t, ok)
		_, err = controller.SetCondition(e.Context(), heads, head, ready)
		require.ErrorContains(t, err, "*v1.PartialObjectMetadata has no Status.Conditions")
	})
}

// Conditions of objects without a Go type may have other fields than metav1.Condition, or fewer.
func TestSetConditionKeepsUnknownFields(t *testing.T) {
	widgets := object.GVK{Group: "example.com", Version: "v1", Kind: "Widget"}
	server := apiservertest.Options{Resources: []apiservertest.Resource{{
		GVR: widgets.GroupVersion().WithResource("widgets"), Kind: "Widget", Namespaced: true, Status: true,
	}}}
	controllertest.RunWith(t, controllertest.Options{Server: server}, func(e *controllertest.Env) {
		c := controller.ClientWith(e.Factory, factory.For[*unstructured.Unstructured]{Kind: widgets})
		e.Start()
		other := map[string]any{"type": "Other", "status": "True", "severity": "Info"}
		w := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"namespace": "shop", "name": "w"},
			"status": map[string]any{"conditions": []any{other, map[string]any{"type": "Ready", "status": "False", "severity": "Error", "observedGeneration": int64(3)}}},
		}}
		_, err := e.Server.Create(w)
		require.NoError(t, err)
		e.Settle(0)
		for _, reason := range []string{"Computed", "Computed", "Seen"} {
			w, ok := c.Copy(object.KeyOf(w))
			require.True(t, ok)
			_, err = controller.SetCondition(e.Context(), c, w, metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: reason})
			require.NoError(t, err)
			e.Settle(time.Minute)
		}
		require.EqualValues(t, 2, e.Server.Stats().Requests("patch", "widgets"))
		w, _ = c.Copy(object.KeyOf(w))
		conditions, _, err := unstructured.NestedSlice(w.Object, "status", "conditions")
		require.NoError(t, err)
		require.Len(t, conditions, 2)
		require.Equal(t, other, conditions[0])
		ready := conditions[1].(map[string]any)
		require.Equal(t, "Error", ready["severity"])
		require.Equal(t, "True", ready["status"])
		require.Equal(t, "Seen", ready["reason"])
		require.NotContains(t, ready, "observedGeneration")
	})
}

// A function that changes a captured variable instead of its argument gets an error.
func TestAFunctionThatChangesTheWrongObject(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		maps, pods := controller.ClientFor[*corev1.ConfigMap](e.Factory), controller.ClientFor[*corev1.Pod](e.Factory)
		e.Start()
		const want = "instead of its argument, which is a copy: change the argument"
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "m"}}
		for range 2 { // new, and when it is there
			m.Data = nil
			_, _, err := controller.CreateOrUpdate(e.Context(), maps, m, func(*corev1.ConfigMap) error { m.Data = map[string]string{"a": "b"}; return nil })
			require.ErrorContains(t, err, "create or update configmaps: the function changed the original *v1.ConfigMap shop/m "+want)
			controllertest.Put(e, m)
		}
		p := controllertest.Put(e, pod("a"))
		_, err := controller.Patch(e.Context(), pods, p, func(*corev1.Pod) error { p.Labels = map[string]string{"a": "b"}; return nil })
		require.ErrorContains(t, err, want)
		_, err = controller.PatchStatus(e.Context(), pods, p, func(*corev1.Pod) error { p.Status.Reason = "x"; return nil })
		require.ErrorContains(t, err, "the function changed the original *v1.Pod shop/a "+want)
		require.Zero(t, e.Server.Stats().Requests("patch", "pods"))
	})
}

type (
	conditionList []metav1.Condition
	status        struct{ Conditions []metav1.Condition }
	embedded      struct{ Status status }

	withPointer struct {
		corev1.ConfigMap
		Status *status
	}
	withNamedList struct {
		corev1.ConfigMap
		Status struct{ Conditions conditionList }
	}
	withEmbedded struct {
		corev1.ConfigMap
		*embedded
	}
	withText struct {
		corev1.ConfigMap
		Status string
	}
	withOthers struct {
		corev1.ConfigMap
		Status struct{ Conditions []string }
	}
)

// Conditions are found in statuses of many forms, and the search does not panic on any other object.
func TestLocationOfConditions(t *testing.T) {
	change := func(all *[]metav1.Condition) {
		meta.SetStatusCondition(all, metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue})
	}
	pointer, named := &withPointer{}, &withNamedList{}
	require.NoError(t, controller.ChangeConditions(pointer, change))
	require.Len(t, pointer.Status.Conditions, 1)
	require.NoError(t, controller.ChangeConditions(named, change))
	require.Len(t, named.Status.Conditions, 1)
	for _, o := range []object.Object{&withEmbedded{}, &withText{}, &withOthers{}, &corev1.Secret{}, (*corev1.Secret)(nil)} {
		require.ErrorContains(t, controller.ChangeConditions(o, change), "has no Status.Conditions of type []v1.Condition: use PatchStatus")
	}
	u := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": "many"}}}
	require.Error(t, controller.ChangeConditions(u, change))
	u = &unstructured.Unstructured{Object: map[string]any{"status": "fine"}}
	require.Error(t, controller.ChangeConditions(u, change))
	u = &unstructured.Unstructured{Object: map[string]any{}}
	require.NoError(t, controller.ChangeConditions(u, change))
	require.True(t, strings.HasPrefix(fmt.Sprint(u.Object["status"]), "map[conditions:[map["))
}

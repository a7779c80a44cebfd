package controller_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/scheme"
)

func replicaSet(name, uid string) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(uid)}}
}

func TestOwnerReferences(t *testing.T) {
	known := scheme.New()
	web, db, p := replicaSet("web", "1"), replicaSet("db", "2"), pod("a")
	reference := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "1", Controller: new(true), BlockOwnerDeletion: new(true)}
	for range 2 {
		require.NoError(t, controller.SetControllerReference(web, p, known))
		require.Equal(t, []metav1.OwnerReference{reference}, p.OwnerReferences)
	}
	require.True(t, controller.Controls(web, p))

	err := controller.SetControllerReference(db, p, known)
	owned, ok := errors.AsType[*controller.AlreadyOwnedError](err)
	require.True(t, ok)
	require.Equal(t, "web", owned.Owner.Name)
	require.ErrorContains(t, err, "shop/a is controlled by ReplicaSet web (UID 1) already")

	require.NoError(t, controller.SetOwnerReference(db, p, known))
	require.NoError(t, controller.SetOwnerReference(web, p, known), "and it stays the controller")
	require.Equal(t, []metav1.OwnerReference{reference, {APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "db", UID: "2"}}, p.OwnerReferences)

	err = controller.SetControllerReference(replicaSet("web", "3"), p, known)
	require.ErrorAs(t, err, &owned, "another UID is another object, also under the same name")
	require.EqualValues(t, "1", owned.Owner.UID)

	require.False(t, controller.RemoveOwnerReference(replicaSet("web", "3"), p))
	require.True(t, controller.RemoveOwnerReference(db, p))
	require.Len(t, p.OwnerReferences, 1)

	elsewhere := replicaSet("web", "1")
	elsewhere.Namespace = "bank"
	for want, o := range map[string]object.Object{
		"the owner has no UID":  replicaSet("new", ""),
		"different namespaces":  elsewhere,
		"no kind is registered": &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "1"}},
	} {
		known := known
		if want == "no kind is registered" {
			known = runtime.NewScheme()
		}
		require.ErrorContains(t, controller.SetControllerReference(o, pod("a"), known), want)
	}
	require.ErrorContains(t, controller.SetControllerReference(web, &corev1.Node{}, known), "cluster-scoped")
	require.ErrorContains(t, controller.SetControllerReference(web, pod("a"), nil), "the scheme is nil, and the *v1.ReplicaSet does not specify its kind")
	custom := widget("w")
	custom.SetUID("7")
	p = pod("a")
	require.NoError(t, controller.SetControllerReference(custom, p, runtime.NewScheme()), "it says its kind itself")
	require.Equal(t, "example.com/v1", p.OwnerReferences[0].APIVersion)
}

func TestFinalizers(t *testing.T) {
	p := pod("a")
	require.False(t, controller.HasFinalizer(p, "x"))
	require.True(t, controller.AddFinalizer(p, "x"))
	require.False(t, controller.AddFinalizer(p, "x"))
	require.True(t, controller.AddFinalizer(p, "y"))
	shared := p.Finalizers
	require.True(t, controller.RemoveFinalizer(p, "x"))
	require.False(t, controller.RemoveFinalizer(p, "x"))
	require.Equal(t, []string{"y"}, p.Finalizers)
	require.Equal(t, []string{"x", "y"}, shared, "what others may share is not changed")
}

func TestCreateOrUpdate(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		pods := controller.ClientFor[*corev1.Pod](e.Factory)
		e.Start()
		ctx := e.Context()
		set := func(to string) func(*corev1.Pod) error {
			return func(p *corev1.Pod) error { p.Labels = map[string]string{"x": to}; return nil }
		}
		mine := pod("a")
		p, did, err := controller.CreateOrUpdate(ctx, pods, mine, set("1"))
		require.NoError(e, err)
		require.Equal(e, controller.DidCreate, did)
		require.Equal(e, "1", p.Labels["x"])
		require.Nil(e, mine.Labels, "what is given is not changed")
		e.Settle(0)

		writes := e.Server.RV()
		_, did, err = controller.CreateOrUpdate(ctx, pods, pod("a"), set("1"))
		require.NoError(e, err)
		require.Equal(e, controller.Unchanged, did)
		require.Equal(e, writes, e.Server.RV())
		require.Zero(e, e.Server.Stats().Requests("update", "pods"), "nothing was sent")

		p, did, err = controller.CreateOrUpdate(ctx, pods, pod("a"), set("2"))
		require.NoError(e, err)
		require.Equal(e, controller.DidUpdate, did)
		require.Equal(e, "2", p.Labels["x"])
		e.Settle(0)

		broken := errors.New("broken")
		_, did, err = controller.CreateOrUpdate(ctx, pods, pod("a"), func(*corev1.Pod) error { return broken })
		require.ErrorIs(e, err, broken)
		require.Equal(e, controller.Unchanged, did)
		_, _, err = controller.CreateOrUpdate(ctx, pods, pod("a"), func(p *corev1.Pod) error { p.Name = "b"; return nil })
		require.ErrorContains(e, err, "change altered the key to shop/b")

		before := e.Server.RV()
		_, did, err = controller.CreateOrUpdate(ctx, pods, pod("", func(p *corev1.Pod) { p.GenerateName = "a-" }), set("1"))
		require.ErrorContains(e, err, "the object has no name")
		require.Equal(e, controller.Unchanged, did)
		require.Equal(e, before, e.Server.RV(), "each call would create one more")
	})
}

func TestPatchStatus(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		pods := controller.ClientFor[*corev1.Pod](e.Factory)
		e.Start()
		p := controllertest.Put(e, pod("a", func(p *corev1.Pod) { p.Status.Message, p.Status.Reason = "old", "Because" }))
		change := func(p *corev1.Pod) error {
			p.Status.Phase = corev1.PodRunning
			p.Status.Message = ""
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, ObservedGeneration: 9007199254740993}}
			p.Labels = map[string]string{"not": "sent"}
			return nil
		}
		p, err := controller.PatchStatus(e.Context(), pods, p, change)
		require.NoError(e, err)
		require.Equal(e, corev1.PodRunning, p.Status.Phase)
		require.Empty(e, p.Status.Message)
		require.Equal(e, "Because", p.Status.Reason)
		require.EqualValues(e, int64(9007199254740993), p.Status.Conditions[0].ObservedGeneration, "no figure is lost")
		require.Empty(e, p.Labels)

		sent := e.Server.Stats().Requests("patch", "pods")
		again, err := controller.PatchStatus(e.Context(), pods, p, change)
		require.NoError(e, err)
		require.Same(e, p, again)
		require.Equal(e, sent, e.Server.Stats().Requests("patch", "pods"))

		broken := errors.New("broken")
		_, err = controller.PatchStatus(e.Context(), pods, p, func(*corev1.Pod) error { return broken })
		require.ErrorIs(e, err, broken)
	})
}

// A status may also be a map, as in a custom resource without Go types.
func TestPatchStatusOfACustomResource(t *testing.T) {
	custom := widgets
	custom.Status = true
	controllertest.RunWith(t, controllertest.Options{Server: apiservertest.Options{Resources: []apiservertest.Resource{custom}}}, func(e *controllertest.Env) {
		client := controller.ClientWith(e.Factory, factory.For[*unstructured.Unstructured]{Kind: widgets.GVK()})
		e.Start()
		w := controllertest.Put(e, widget("w"))
		set := func(status map[string]any) func(*unstructured.Unstructured) error {
			return func(u *unstructured.Unstructured) error { return unstructured.SetNestedMap(u.Object, status, "status") }
		}
		w, err := controller.PatchStatus(e.Context(), client, w, set(map[string]any{"a": map[string]any{"x": int64(1), "y": int64(2)}, "b": "c"}))
		require.NoError(e, err)
		w, err = controller.PatchStatus(e.Context(), client, w, set(map[string]any{"a": map[string]any{"x": int64(1)}}))
		require.NoError(e, err)
		require.Equal(e, map[string]any{"a": map[string]any{"x": int64(1)}}, w.Object["status"])
		same, err := controller.PatchStatus(e.Context(), client, w, set(map[string]any{"a": map[string]any{"x": int64(1)}}))
		require.NoError(e, err)
		require.Same(e, w, same)
	})
}

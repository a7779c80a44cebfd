package main

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"example.com/sandbox/api/v1"
	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/scheme"
)

var (
	ann   = object.Key{Name: "ann"}
	space = object.Key{Name: "sandbox-ann"}
	part  = object.Key{Namespace: "sandbox-ann", Name: "sandbox"}
)

// world runs body in a world that serves Sandboxes, with the controller at work.
func world(t *testing.T, body func(e *controllertest.Env)) {
	t.Helper()
	kinds := scheme.New()
	require.NoError(t, v1.AddToScheme(kinds))
	definition, err := os.ReadFile("deploy/dev.example.com_sandboxes.yaml")
	require.NoError(t, err)
	served, err := apiservertest.ReadDefinition(definition)
	require.NoError(t, err)
	served.New = func() object.Object { return &v1.Sandbox{} }
	opts := controllertest.Options{Scheme: kinds, Server: apiservertest.Options{Resources: []apiservertest.Resource{served}}}
	controllertest.RunWith(t, opts, func(e *controllertest.Env) {
		m := e.Manager(manager.Options{})
		require.NoError(e, addController(m))
		e.Start(m)
		body(e)
	})
}

func sandbox(hours int32) *v1.Sandbox {
	quota := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("10")}
	return &v1.Sandbox{ObjectMeta: metav1.ObjectMeta{Name: ann.Name}, Spec: v1.SandboxSpec{Owner: "ann", Hours: hours, Quota: quota}}
}

func ready(e *controllertest.Env) *metav1.Condition {
	e.Helper()
	c := meta.FindStatusCondition(controllertest.Get[*v1.Sandbox](e, ann).Status.Conditions, v1.Ready)
	require.NotNil(e, c)
	return c
}

func TestSandboxIsCreated(t *testing.T) {
	world(t, func(e *controllertest.Env) {
		s := controllertest.Put(e, sandbox(8))
		ns := controllertest.Get[*corev1.Namespace](e, space)
		require.True(e, controller.Controls(s, ns), "so that it goes with the sandbox")
		require.Equal(e, s.Spec.Quota, controllertest.Get[*corev1.ResourceQuota](e, part).Spec.Hard)
		require.Equal(e, "ann", controllertest.Get[*rbacv1.RoleBinding](e, part).Subjects[0].Name)
		require.Equal(e, metav1.ConditionTrue, ready(e).Status)
		s = controllertest.Get[*v1.Sandbox](e, ann)
		require.Equal(e, "sandbox-ann", s.Status.Namespace)
		require.Equal(e, s.CreationTimestamp.Add(8*time.Hour), s.Status.Expires.Time)
	})
}

func TestChangedOrDeletedPartsAreRestored(t *testing.T) {
	world(t, func(e *controllertest.Env) {
		s := controllertest.Put(e, sandbox(8))
		controllertest.Delete[*rbacv1.RoleBinding](e, part)
		require.Len(e, controllertest.All[*rbacv1.RoleBinding](e), 1)

		s.Spec.Quota[corev1.ResourcePods] = resource.MustParse("20")
		controllertest.Put(e, s)
		require.Equal(e, s.Spec.Quota, controllertest.Get[*corev1.ResourceQuota](e, part).Spec.Hard)

		before := e.Server.RV()
		e.Settle(time.Hour)
		require.Equal(e, before, e.Server.RV(), "at rest nothing is written")
	})
}

func TestASandboxExpires(t *testing.T) {
	world(t, func(e *controllertest.Env) {
		controllertest.Put(e, sandbox(8))
		e.Settle(8*time.Hour - time.Minute)
		require.Len(e, controllertest.All[*v1.Sandbox](e), 1)
		e.Settle(time.Minute)
		require.Empty(e, controllertest.All[*v1.Sandbox](e))
	})
}

func TestForeignNamespaceIsLeftAlone(t *testing.T) {
	world(t, func(e *controllertest.Env) {
		controllertest.Put(e, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: space.Name}})
		controllertest.Put(e, sandbox(8))
		require.Equal(e, "NamespaceTaken", ready(e).Reason)
		require.Empty(e, controllertest.All[*rbacv1.RoleBinding](e))

		controllertest.Delete[*corev1.Namespace](e, space)
		e.Settle(time.Minute)
		require.Equal(e, metav1.ConditionTrue, ready(e).Status)
	})
}

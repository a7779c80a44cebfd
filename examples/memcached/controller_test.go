package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllertest"
	v1 "github.com/millrace-dev/millrace/examples/memcached/api/v1"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/scheme"
	"github.com/millrace-dev/millrace/webhook"
)

var key = object.Key{Namespace: "shop", Name: "carts"}

// world runs body in a world that serves Memcacheds, with the controller at work.
func world(t *testing.T, body func(e *controllertest.Env)) {
	t.Helper()
	kinds := scheme.New()
	require.NoError(t, v1.AddToScheme(kinds))
	memcacheds, err := apiservertest.ReadDefinition(definition)
	require.NoError(t, err)
	memcacheds.New = func() object.Object { return &v1.Memcached{} }
	opts := controllertest.Options{Scheme: kinds, Server: apiservertest.Options{Resources: []apiservertest.Resource{memcacheds}}}
	controllertest.RunWith(t, opts, func(e *controllertest.Env) {
		m := e.Manager(manager.Options{})
		require.NoError(e, addController(m))
		e.Start(m)
		body(e)
	})
}

func memcached(size int32) *v1.Memcached {
	return &v1.Memcached{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
		Spec:       v1.MemcachedSpec{Size: size, Image: "memcached:1.6"},
	}
}

// serve does what the cluster does for a Deployment: its nodes come up.
func serve(e *controllertest.Env) {
	d := controllertest.Get[*appsv1.Deployment](e, key).DeepCopy()
	for n := range *d.Spec.Replicas {
		controllertest.Put(e, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: d.Namespace, Name: fmt.Sprint(d.Name, "-", n), Labels: d.Spec.Template.Labels,
		}})
	}
	d.Status.AvailableReplicas = *d.Spec.Replicas
	controllertest.Put(e, d)
}

func available(e *controllertest.Env) (metav1.ConditionStatus, string) {
	e.Helper()
	conditions := controllertest.Get[*v1.Memcached](e, key).Status.Conditions
	require.Len(e, conditions, 1)
	return conditions[0].Status, conditions[0].Message
}

func TestTheNodesOfAMemcachedComeUp(t *testing.T) {
	world(t, func(e *controllertest.Env) {
		m := controllertest.Put(e, memcached(2))
		d := controllertest.Get[*appsv1.Deployment](e, key)
		require.EqualValues(e, 2, *d.Spec.Replicas)
		require.Equal(e, "memcached:1.6", d.Spec.Template.Spec.Containers[0].Image)
		require.True(e, controller.Controls(m, d))
		is, why := available(e)
		require.Equal(e, metav1.ConditionFalse, is)
		require.Equal(e, "0 of 2 nodes serve", why)

		serve(e)
		is, why = available(e)
		require.Equal(e, metav1.ConditionTrue, is)
		require.Equal(e, "2 of 2 nodes serve", why)
		require.Equal(e, []string{"carts-0", "carts-1"}, controllertest.Get[*v1.Memcached](e, key).Status.Nodes)

		e.Settle(time.Minute)
		told := controllertest.All[*eventsv1.Event](e)
		require.Len(e, told, 1)
		require.Equal(e, "deployment created: 2 nodes of memcached:1.6", told[0].Note)
	})
}

func TestAChangeOfAMemcachedIsFollowed(t *testing.T) {
	world(t, func(e *controllertest.Env) {
		controllertest.Put(e, memcached(2))
		serve(e)
		m := controllertest.Get[*v1.Memcached](e, key).DeepCopyObject().(*v1.Memcached)
		m.Spec.Size, m.Spec.Image = 4, "memcached:1.7"
		controllertest.Put(e, m)
		d := controllertest.Get[*appsv1.Deployment](e, key)
		require.EqualValues(e, 4, *d.Spec.Replicas)
		require.Equal(e, "memcached:1.7", d.Spec.Template.Spec.Containers[0].Image)
		is, why := available(e)
		require.Equal(e, metav1.ConditionFalse, is)
		require.Equal(e, "2 of 4 nodes serve", why)

		controllertest.Delete[*appsv1.Deployment](e, key)
		require.EqualValues(e, 4, *controllertest.Get[*appsv1.Deployment](e, key).Spec.Replicas, "what goes is made again")
	})
}

// What the server has filled in is left alone, and so nothing is written without need.
func TestAMemcachedAtRestIsNotWritten(t *testing.T) {
	world(t, func(e *controllertest.Env) {
		controllertest.Put(e, memcached(1))
		d := controllertest.Get[*appsv1.Deployment](e, key).DeepCopy()
		d.Spec.Template.Spec.Containers[0].ImagePullPolicy = corev1.PullIfNotPresent
		controllertest.Put(e, d)
		serve(e)
		before := e.Server.RV()
		e.Settle(24 * time.Hour)
		require.Equal(e, before, e.Server.RV())
		require.Equal(e, corev1.PullIfNotPresent, controllertest.Get[*appsv1.Deployment](e, key).Spec.Template.Spec.Containers[0].ImagePullPolicy)
	})
}

func TestAMemcachedGoesAfterItsLastNode(t *testing.T) {
	world(t, func(e *controllertest.Env) {
		controllertest.Put(e, memcached(2))
		serve(e)
		controllertest.Delete[*v1.Memcached](e, key)
		require.Empty(e, controllertest.All[*appsv1.Deployment](e))
		controllertest.Delete[*corev1.Pod](e, object.Key{Namespace: key.Namespace, Name: "carts-0"})
		require.Len(e, controllertest.All[*v1.Memcached](e), 1, "carts-1 is left")
		controllertest.Delete[*corev1.Pod](e, object.Key{Namespace: key.Namespace, Name: "carts-1"})
		require.Empty(e, controllertest.All[*v1.Memcached](e))
	})
}

// A Deployment of the same name that belongs to somebody else is left alone.
func TestADeploymentOfAnotherOwnerIsLeftAlone(t *testing.T) {
	world(t, func(e *controllertest.Env) {
		controllertest.Put(e, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Other", Name: "other", UID: "1", Controller: new(true)}},
		}})
		controllertest.Put(e, memcached(2))
		require.Nil(e, controllertest.Get[*appsv1.Deployment](e, key).Spec.Replicas)
		controllertest.Delete[*v1.Memcached](e, key)
		require.Empty(e, controllertest.All[*v1.Memcached](e))
		require.Len(e, controllertest.All[*appsv1.Deployment](e), 1)
	})
}

func TestInvalidObjectsAreRefused(t *testing.T) {
	gone := metav1.Now()
	for _, c := range []struct {
		name     string
		image    string
		from, to int32 // from < 0: it is new
		deleted  *metav1.Time
		want     string // empty: allowed
	}{
		{"an image with a version", "memcached:1.6", -1, 3, nil, ""},
		{"of a registry with a port", "registry.example.com:5000/memcached:1.6", -1, 3, nil, ""},
		{"no version", "memcached", -1, 3, nil, `spec.image: "memcached" has no version`},
		{"a port is no version", "registry.example.com:5000/memcached", -1, 3, nil, "has no version: use one such as"},
		{"any version", "memcached:latest", -1, 3, nil, "has no version: use one such as"},
		{"up", "memcached:1.6", 1, 9, nil, ""},
		{"down by half", "memcached:1.6", 6, 3, nil, ""},
		{"down by more", "memcached:1.6", 6, 2, nil, "spec.size: scaling from 6 to 2 nodes"},
		{"the last one", "memcached:1.6", 1, 0, nil, ""},
		{"what is deleted anyway", "memcached", 6, 0, &gone, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &webhook.Request[*v1.Memcached]{Object: memcached(c.to)}
			r.Object.Spec.Image, r.Object.DeletionTimestamp = c.image, c.deleted
			if c.from >= 0 {
				r.OldObject = memcached(c.from)
			}
			err := validate(context.Background(), r)
			if c.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.want)
			}
		})
	}
}

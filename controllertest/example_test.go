package controllertest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/object"
)

// newGreeter is a controller as a user may write it: it sees to it that each
// namespace with the label "greet" has a ConfigMap with a greeting, and says goodbye
// before such a namespace goes.
func newGreeter(f *factory.Factory, goodbye func(namespace string)) (*controller.Controller, error) {
	namespaces, maps := controller.ClientFor[*corev1.Namespace](f), controller.ClientFor[*corev1.ConfigMap](f)

	reconcile := func(ctx context.Context, ns *corev1.Namespace) (controller.Result, error) {
		if ns.DeletionTimestamp == nil && ns.Labels["greet"] == "" {
			return controller.Result{}, nil
		}
		ns, err := namespaces.Finalize(ctx, ns, "example.com/goodbye", func(_ context.Context, ns *corev1.Namespace) (done bool, err error) {
			goodbye(ns.Name)
			return true, nil
		})
		if err != nil || ns.DeletionTimestamp != nil {
			return controller.Result{}, err
		}
		greeting := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "greeting"}}
		_, _, err = controller.CreateOrUpdate(ctx, maps, greeting, func(m *corev1.ConfigMap) error {
			m.Data = map[string]string{"text": "hello " + ns.Labels["greet"]}
			return controller.SetControllerReference(ns, m, f.Client().Scheme())
		})
		return controller.Result{RequeueAfter: time.Hour}, err
	}

	c, err := controller.New("greeter", controller.Objects(namespaces, reconcile), controller.Options{})
	if err != nil {
		return nil, err
	}
	c.Watch(controller.For(namespaces))
	c.Watch(controller.Owns(maps, namespaces))
	return c, nil
}

func namespace(name, greet string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"greet": greet}}}
}

// A test of a controller puts something and looks at the result. There is no sleep and no polling, and
// the test takes a few milliseconds.
func TestGreeter(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		var left []string
		c, err := newGreeter(e.Factory, func(namespace string) { left = append(left, namespace) })
		require.NoError(t, err)
		key := object.Key{Namespace: "shop", Name: "greeting"}

		controllertest.Put(e, namespace("shop", "world"))
		e.Start(c)
		require.Equal(t, "hello world", controllertest.Get[*corev1.ConfigMap](e, key).Data["text"], "what was there is seen to")

		shop := controllertest.Get[*corev1.Namespace](e, object.Key{Name: "shop"})
		shop.Labels["greet"] = "moon"
		controllertest.Put(e, shop)
		require.Equal(t, "hello moon", controllertest.Get[*corev1.ConfigMap](e, key).Data["text"], "a change is followed")

		controllertest.Delete[*corev1.ConfigMap](e, key)
		require.Equal(t, "hello moon", controllertest.Get[*corev1.ConfigMap](e, key).Data["text"], "what goes is made again")

		before := c.Status().RequeuesAfter
		e.Settle(time.Hour)
		require.Equal(t, before+1, c.Status().RequeuesAfter, "and it is looked after every hour")

		controllertest.Delete[*corev1.Namespace](e, object.Key{Name: "shop"})
		require.Equal(t, []string{"shop"}, left)
		require.Empty(t, controllertest.All[*corev1.Namespace](e), "nothing holds it any longer")
	})
}

// Failures of the server are tested as easily.
func TestGreeterWhileTheServerFails(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		c, err := newGreeter(e.Factory, func(string) {})
		require.NoError(t, err)
		e.Start(c)
		e.Server.Faults().Add(apiservertest.Fault{Verb: "create", Resource: "configmaps", Count: 5, Do: []apiservertest.Action{apiservertest.Fail{Code: 500}}})
		for n := range 3 {
			controllertest.Put(e, namespace(fmt.Sprint("ns", n), "world"))
		}
		e.Settle(time.Minute)
		require.Len(t, controllertest.All[*corev1.ConfigMap](e), 3)
		require.EqualValues(t, 5, c.Status().Errors)
	})
}

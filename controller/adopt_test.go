package controller_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/object"
)

// Objects written for an owner are controlled by it.
func TestOwnedBy(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		ctx, maps := e.Context(), controller.ClientFor[*corev1.ConfigMap](e.Factory)
		e.Start()
		shop, bank := controllertest.Put(e, aNamespace("shop")), controllertest.Put(e, aNamespace("bank"))
		fresh := func(name string) *corev1.ConfigMap {
			return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
		}
		theirs, sent := maps.OwnedBy(shop), fresh("created")
		created, err := theirs.Create(ctx, sent)
		require.NoError(e, err)
		require.Empty(e, sent.OwnerReferences, "what was given is not changed")
		require.True(e, controller.Controls(shop, created))

		applied, err := theirs.Apply(ctx, fresh("applied"), "me")
		require.NoError(e, err)
		require.True(e, controller.Controls(shop, applied))

		plain, err := maps.Create(ctx, fresh("plain"))
		require.NoError(e, err)
		require.Empty(e, plain.OwnerReferences, "the client itself is as it was")
		plain, err = theirs.Update(ctx, plain)
		require.NoError(e, err)
		require.True(e, controller.Controls(shop, plain))

		_, err = maps.OwnedBy(bank).Update(ctx, plain)
		require.ErrorAs(e, err, new(*controller.AlreadyOwnedError), "what another controls is refused")
		e.Settle(0)
		_, _, err = controller.CreateOrUpdate(ctx, maps.OwnedBy(bank), plain, func(*corev1.ConfigMap) error { return nil })
		require.ErrorAs(e, err, new(*controller.AlreadyOwnedError))
		_, err = maps.OwnedBy(bank).Apply(ctx, fresh("plain"), "bank")
		require.ErrorAs(e, err, new(*controller.AlreadyOwnedError), "an apply, too, which does not tell of other owners")
		require.ErrorContains(e, err, "shop/plain is controlled by Namespace shop (UID")
		require.Len(e, controllertest.Get[*corev1.ConfigMap](e, object.KeyOf(plain)).OwnerReferences, 1)
		_, err = theirs.Create(ctx, nil)
		require.ErrorContains(e, err, "nil")
		_, err = maps.OwnedBy(aNamespace("new")).Create(ctx, fresh("orphan"))
		require.ErrorContains(e, err, "the owner has no UID")
	})
}

// An owner that was recreated under the same name is another object, and no child has its UID. So no
// form of write takes over the children. The garbage collector deletes the children of the first owner.
func TestOwnedByARecreatedOwner(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		ctx, maps := e.Context(), controller.ClientFor[*corev1.ConfigMap](e.Factory)
		e.Start()
		first := controllertest.Put(e, aNamespace("shop"))
		child, err := maps.OwnedBy(first).Apply(ctx, configMap("child"), "me")
		require.NoError(e, err)
		controllertest.Delete[*corev1.Namespace](e, object.KeyOf(first))
		second := controllertest.Put(e, aNamespace("shop"))
		require.NotEqual(e, first.UID, second.UID)
		theirs := maps.OwnedBy(second)
		_, err = theirs.Update(ctx, child)
		require.ErrorAs(e, err, new(*controller.AlreadyOwnedError))
		_, _, err = controller.CreateOrUpdate(ctx, theirs, configMap("child"), func(*corev1.ConfigMap) error { return nil })
		require.ErrorAs(e, err, new(*controller.AlreadyOwnedError))
		_, err = theirs.Apply(ctx, configMap("child"), "you")
		require.ErrorAs(e, err, new(*controller.AlreadyOwnedError))
		require.True(e, controller.Controls(first, controllertest.Get[*corev1.ConfigMap](e, object.KeyOf(child))))
	})
}

// A client with a nil owner refuses to write, because nothing would ever delete the object.
func TestOwnedByWithoutAnOwner(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		pods := controller.ClientFor[*corev1.Pod](e.Factory)
		e.Start()
		var none *corev1.Pod // the result of Client.Get for a missing object
		for _, nobody := range []object.Object{nil, none} {
			_, err := pods.OwnedBy(nobody).Create(e.Context(), pod("a"))
			require.ErrorContains(e, err, "owner reference of shop/a: the owner is nil")
			_, err = pods.OwnedBy(nobody).Apply(e.Context(), pod("a"), "me")
			require.ErrorContains(e, err, "the owner is nil")
			require.ErrorContains(e, controller.SetOwnerReference(nobody, pod("a"), nil), "the owner is nil")
		}
		require.Empty(e, controllertest.All[*corev1.Pod](e))
	})
}

func aNamespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

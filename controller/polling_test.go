package controller_test

import (
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
	"github.com/millrace-dev/millrace/shard"
)

// A request waits because the list of its namespace is missing in a slot that was gained. It is checked less and less
// often, even while requests in other namespaces of the same slot are reconciled.
func TestRequestThatWaitsForANamespaceInABusySlotIsRarelyChecked(t *testing.T) {
	controllertest.RunWith(t, controllertest.Options{Factory: factory.Options{Namespaces: []string{"shop", "mail"}}}, func(e *controllertest.Env) {
		const gained = 3
		share := newSlotsOfOurs()
		share.lose(gained)
		of := factory.Scope{Shard: shard.Scope{Share: share}}
		maps := controller.ClientWith(e.Factory, factory.For[*corev1.ConfigMap]{Scope: of})
		secrets := controller.ClientWith(e.Factory, factory.For[*corev1.Secret]{Scope: of})
		j := &journal{}
		c := newController(e, j, controller.Options{}, controller.For(maps), controller.Awaited(secrets))
		in := func(namespace, value string) *corev1.ConfigMap {
			return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a", UID: uidIn(gained)}, Data: map[string]string{"is": value}}
		}
		controllertest.Put(e, in("mail", ""))
		controllertest.Put(e, in("shop", ""))
		e.Start(c)
		e.Settle(time.Minute)
		e.Server.SetAuthorizer(func(a apiservertest.Attributes) bool { return a.Resource != "secrets" || a.Namespace != "mail" })
		share.gain(gained)
		e.Settle(time.Minute)
		require.Equal(e, []string{"shop/a"}, j.read())
		before := c.Status().Held
		for n := range 600 {
			controllertest.Put(e, in("shop", fmt.Sprint(n)))
			e.Settle(100 * time.Millisecond)
		}
		require.NotContains(e, j.read(), "mail/a")
		require.Less(e, c.Status().Held-before, uint64(100), "checks of one request in a minute")
	})
}

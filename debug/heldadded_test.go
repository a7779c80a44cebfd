package debug_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/object"
)

// A request is held back because one source cannot list a namespace that was added while the controller runs. It is not
// in the queue, but neither a predicate nor a map function has dropped it.
func TestWhyNamesTheSourceThatLacksANamespaceAddedLater(t *testing.T) {
	recorder := flight.New(flight.DefaultSize)
	controllertest.RunWith(t, controllertest.Options{
		Factory: factory.Options{Flight: recorder, Namespaces: []string{"shop"}},
		Server:  apiservertest.Options{Authorize: func(a apiservertest.Attributes) bool { return a.Resource != "secrets" || a.Namespace != "mail" }},
	}, func(e *controllertest.Env) {
		maps, secrets := controller.ClientFor[*corev1.ConfigMap](e.Factory), controller.ClientFor[*corev1.Secret](e.Factory)
		c, err := controller.New("keeper", controller.Func(func(context.Context, controller.Request) (controller.Result, error) {
			return controller.Result{}, nil
		}), controller.Options{Flight: recorder})
		require.NoError(e, err)
		c.Watch(controller.For(maps))
		c.Watch(controller.Awaited(secrets))
		for _, namespace := range []string{"shop", "mail"} {
			controllertest.Put(e, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a"}})
		}
		e.Start(c)
		e.Settle(time.Minute)
		require.NoError(e, e.Factory.SetNamespaces([]string{"shop", "mail"}))
		e.Settle(10 * time.Minute)
		process := debug.New(debug.Options{
			Recorder: recorder, Informers: debug.Of(e.Factory), Controllers: func() []controller.View { return []controller.View{c} },
		})
		why, err := attached(process).Why(e.Context(), "", "", object.Key{Namespace: "mail", Name: "a"})
		require.NoError(e, err)
		require.Equal(e, debug.Unsynced, why.Reasons[0].Cause, "%+v", why.Reasons)
		require.Regexp(e, `^The controller keeper received a request for mail/a .+ ago and has not started it: secrets.* is not synced: .*forbidden`, why.Reasons[0].Text)
	})
}

package controllertest_test

import (
	"context"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/recording"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/scheme"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// recordNight records what informers of namespaces and ConfigMaps receive while the server
// has a bad night.
func recordNight(t *testing.T) (file string) {
	file = filepath.Join(t.TempDir(), "night.recording")
	synctest.Test(t, func(t *testing.T) {
		srv := apiservertest.New(apiservertest.Options{})
		defer srv.Close()
		endpoint, err := srv.Pipe()
		require.NoError(t, err)
		recorder, err := recording.Create(file, recording.Options{})
		require.NoError(t, err)
		client, err := rest.NewClient(&config.Config{Host: endpoint.URL, Dial: endpoint.DialContext, Recorder: recorder}, scheme.New())
		require.NoError(t, err)
		defer client.CloseIdleConnections()
		f := factory.New(client, factory.Options{})
		factory.Informer[*corev1.Namespace](f)
		factory.Informer[*corev1.ConfigMap](f)
		ctx, cancel := context.WithCancel(t.Context())
		f.Start(ctx)
		put := func(name string) {
			time.Sleep(time.Hour)
			_, err := srv.Put(namespace(name, "world"))
			require.NoError(t, err)
		}
		put("evening")
		srv.Down()
		put("night")
		srv.Up()
		srv.Compact()
		put("morning")
		time.Sleep(time.Minute)
		cancel()
		f.Wait()
		require.NoError(t, recorder.Close())
	})
	return file
}

func TestReplay(t *testing.T) {
	file := recordNight(t)
	controllertest.Replay(t, file, func(e *controllertest.Env) {
		c, err := newGreeter(e.Factory, func(string) {})
		require.NoError(t, err)
		var seen []string
		began := time.Now()
		factory.Informer[*corev1.Namespace](e.Factory).AddHandler(sharedinformer.HandlerFunc[*corev1.Namespace](
			func(_ context.Context, ev sharedinformer.Event[*corev1.Namespace]) error {
				seen = append(seen, ev.Object.Name)
				return nil
			}))
		e.Start(c)
		require.Empty(t, seen, "nothing has come yet")
		e.PlayToEnd()
		require.Equal(t, []string{"evening", "night", "morning"}, seen)
		require.GreaterOrEqual(t, time.Since(began), 3*time.Hour, "in virtual time")
		status := factory.Informer[*corev1.Namespace](e.Factory).Status().Reflector
		require.Positive(t, status.Failures, "the night was bad")
		require.Positive(t, c.Status().Errors, "the server of the test has no such namespaces to be changed")
	})
}

// A test sees what a controller writes.
func TestReplayedControllersWrite(t *testing.T) {
	file := recordNight(t)
	controllertest.Replay(t, file, func(e *controllertest.Env) {
		maps := controller.ClientFor[*corev1.ConfigMap](e.Factory)
		c, err := controller.New("copier", controller.Objects(controller.ClientFor[*corev1.Namespace](e.Factory), func(ctx context.Context, ns *corev1.Namespace) (controller.Result, error) {
			m := &corev1.ConfigMap{}
			m.Namespace, m.Name = "default", ns.Name
			_, err := maps.Create(ctx, m)
			return controller.Result{}, err
		}), controller.Options{})
		require.NoError(t, err)
		c.Watch(controller.For(factory.Informer[*corev1.Namespace](e.Factory)))
		e.Start(c)
		e.PlayToEnd()
		require.Len(t, controllertest.All[*corev1.ConfigMap](e), 3)
		_ = controllertest.Get[*corev1.ConfigMap](e, object.Key{Namespace: "default", Name: "night"})
	})
}

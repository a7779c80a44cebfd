package controllermanager_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllermanager"
	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/workqueue"
)

// Whatever a descriptor's functions do, Run returns and names the controller.
func TestAFunctionThatPanicsExitsOrLies(t *testing.T) {
	type client = func(string) (*rest.Client, error)
	runs := func(run func()) func(*controllermanager.Context) (manager.Runnable, error) {
		return func(*controllermanager.Context) (manager.Runnable, error) {
			return manager.RunnableFunc(func(context.Context) error { run(); return nil }), nil
		}
	}
	makes := func(hook func()) func(*controllermanager.Context) (manager.Runnable, error) {
		return func(*controllermanager.Context) (manager.Runnable, error) { hook(); return nil, nil }
	}
	oh := func() { panic("oh") }
	for want, c := range map[string]struct {
		new    func(*controllermanager.Context) (manager.Runnable, error)
		client client
	}{
		"x: New panicked: oh":                {new: makes(oh)},
		"x: New called runtime.Goexit":       {new: makes(runtime.Goexit)},
		"x: Run panicked: oh":                {new: runs(oh)},
		"x: Run called runtime.Goexit":       {new: runs(runtime.Goexit)},
		"x: NewClient panicked: oh":          {new: idle, client: func(string) (*rest.Client, error) { panic("oh") }},
		"x: NewClient called":                {new: idle, client: func(string) (*rest.Client, error) { runtime.Goexit(); return nil, nil }},
		"x: NewClient returned neither":      {new: idle, client: func(string) (*rest.Client, error) { return nil, nil }},
		"x: new client: the config is":       {new: idle, client: controllermanager.Clients(nil, nil)},
		"x: New returned a nil *controller.": {new: func(*controllermanager.Context) (manager.Runnable, error) { return (*controller.Controller)(nil), nil }},
	} {
		t.Run(want, func(t *testing.T) {
			controllertest.Run(t, func(e *controllertest.Env) {
				m, err := controllermanager.New(registry(t, controllermanager.Descriptor{Name: "x", New: c.new}), e.Factory, controllermanager.Options{NewClient: c.client})
				require.NoError(e, err)
				ctx, cancel := context.WithTimeout(e.Context(), time.Minute)
				defer cancel()
				ended := errors.New("it ended its goroutine")
				done := make(chan struct{})
				go func() {
					defer close(done)
					ended = m.Run(ctx)
				}()
				<-done
				require.ErrorContains(e, ended, want)
				require.Equal(e, controllermanager.Ended, m.Status()[0].State)
			})
		})
	}
}

func TestNewRefusesInvalidOptions(t *testing.T) {
	_, err := controllermanager.New(nil, nil, controllermanager.Options{})
	require.ErrorContains(t, err, "the registry is nil")
	_, err = controllermanager.New(registry(t), nil, controllermanager.Options{})
	require.ErrorContains(t, err, "the factory is nil")
	controllertest.Run(t, func(e *controllertest.Env) {
		limiter := workqueue.NewExponential[controller.Request](workqueue.ExponentialOptions{})
		_, err = controllermanager.New(registry(t), e.Factory, controllermanager.Options{Controller: controller.Options{RateLimiter: limiter}})
		require.ErrorContains(e, err, "Controller.RateLimiter is set")
	})
}

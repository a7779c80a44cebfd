package manager

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/rest/config"
)

// wrapped is a controller with more methods or fields. It is not comparable.
type wrapped struct {
	*controller.Controller
	_ []string
}

// The report contains a controller once, even if what was added only embeds it, and even if that is not comparable.
func TestTheReportContainsAnEmbeddedControllerOnce(t *testing.T) {
	m, err := New(&config.Config{Host: "http://127.0.0.1:1"}, Options{})
	require.NoError(t, err)
	named := func(name string, opts controller.Options) *controller.Controller {
		c, err := controller.New(name, controller.Func(func(context.Context, controller.Request) (controller.Result, error) {
			return controller.Result{}, nil
		}), opts)
		require.NoError(t, err)
		return c
	}
	names := func() (all []string) {
		for _, s := range m.Report().Controllers {
			all = append(all, s.Name)
		}
		return all
	}
	require.NoError(t, m.Add(wrapped{Controller: named("own", m.ControllerOptions())}))
	require.NoError(t, m.Add(&several{wrapped{Controller: named("own member", m.ControllerOptions())}}))
	require.Equal(t, []string{"own", "own member"}, names())

	run, _ := m.controllers.adopt(wrapped{Controller: named("plain", controller.Options{})}, func(context.Context) error { return nil })
	require.Len(t, names(), 3)
	require.NotPanics(t, func() { _ = run(t.Context()) })
	require.Len(t, names(), 2)
	_, undo := m.controllers.adopt(several{named("member", controller.Options{})}, nil)
	require.Len(t, names(), 3)
	require.NotPanics(t, undo)
	require.Len(t, names(), 2)
}

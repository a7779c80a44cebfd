package manager

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/rest/config"
)

// several runs controllers, as a controllermanager.Manager does.
type several []controller.View

func (s several) Run(context.Context) error      { return nil }
func (s several) Controllers() []controller.View { return s }

// The report, and so the debug pages, contain controllers without the manager's options as well.
func TestTheReportContainsAllControllers(t *testing.T) {
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
	plain, own := named("plain", controller.Options{}), named("own", m.ControllerOptions())
	require.NoError(t, m.Add(plain))
	require.NoError(t, m.Add(own))
	require.NoError(t, m.Add(&several{named("member", controller.Options{}), named("own member", m.ControllerOptions())}))
	require.Equal(t, []string{"own", "own member", "plain", "member"}, names())
	require.Error(t, m.Add(named("plain", controller.Options{})), "the name is taken")
	require.Len(t, names(), 4)
	for _, g := range m.groups {
		g.close()
	}
	require.Error(t, m.Add(named("late", controller.Options{})))
	require.Error(t, m.Add(&several{named("late member", controller.Options{})}))
	require.Len(t, names(), 4)
	run, _ := m.controllers.adopt(named("short", controller.Options{}), func(context.Context) error { return nil })
	require.Len(t, names(), 5)
	require.NoError(t, run(t.Context()))
	require.Len(t, names(), 4, "until it stops")
}

// forgetful runs controllers but panics if it is asked for them.
type forgetful struct{ several }

func (f forgetful) Controllers() []controller.View { panic("not now") }

func TestTheReportSurvivesAPanicInControllers(t *testing.T) {
	m, err := New(&config.Config{Host: "http://127.0.0.1:1"}, Options{})
	require.NoError(t, err)
	c, err := controller.New("plain", controller.Func(func(context.Context, controller.Request) (controller.Result, error) {
		return controller.Result{}, nil
	}), controller.Options{})
	require.NoError(t, err)
	require.NoError(t, m.Add(&forgetful{}))
	require.NoError(t, m.Add(&several{c}))
	all := m.Report().Controllers
	require.Len(t, all, 1)
	require.Equal(t, "plain", all[0].Name)
}

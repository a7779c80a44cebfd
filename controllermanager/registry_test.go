package controllermanager_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/controllermanager"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/object"
)

func idle(*controllermanager.Context) (manager.Runnable, error) {
	return manager.RunnableFunc(func(ctx context.Context) error {
		<-ctx.Done()
		return nil
	}), nil
}

func registry(t *testing.T, descriptors ...controllermanager.Descriptor) *controllermanager.Registry {
	t.Helper()
	r, err := controllermanager.NewRegistry(descriptors...)
	require.NoError(t, err)
	return r
}

func three(t *testing.T) *controllermanager.Registry {
	return registry(t,
		controllermanager.Descriptor{Name: "foo-controller", Aliases: []string{"foo"}, New: idle},
		controllermanager.Descriptor{Name: "bar-controller", Aliases: []string{"bar", "b"}, New: idle},
		controllermanager.Descriptor{Name: "token-cleaner", New: idle, DisabledByDefault: true},
	)
}

func TestSelect(t *testing.T) {
	for list, want := range map[string][]string{
		"":                      {"foo-controller", "bar-controller"},
		" , ":                   {"foo-controller", "bar-controller"},
		"*":                     {"foo-controller", "bar-controller"},
		"*,-foo":                {"bar-controller"},
		"-foo,*":                {"bar-controller"},
		"*, token-cleaner":      {"foo-controller", "bar-controller", "token-cleaner"},
		"b":                     {"bar-controller"},
		"token-cleaner,foo,foo": {"foo-controller", "token-cleaner"},
		"*,-token-cleaner":      {"foo-controller", "bar-controller"},
		"-foo":                  nil,
	} {
		got, err := three(t).Select(list)
		require.NoError(t, err, list)
		require.Equal(t, want, got, list)
	}
}

func TestSelectListsTheKnownNames(t *testing.T) {
	for list, want := range map[string]string{
		"*,-fo":              `controllers "*,-fo": unknown name "fo": want one of foo-controller, bar-controller, token-cleaner`,
		"-*":                 `controllers "-*": unknown name "*": want one of foo-controller, bar-controller, token-cleaner`,
		"foo,-foo":           `controllers "foo,-foo": "foo-controller" is both selected and excluded: remove one`,
		"-bar,b":             `controllers "-bar,b": "bar-controller" is both selected and excluded: remove one`,
		"foo bar-controller": `controllers "foo bar-controller": unknown name "foo bar-controller": want one of foo-controller, bar-controller, token-cleaner`,
	} {
		_, err := three(t).Select(list)
		require.EqualError(t, err, want)
	}
	require.Equal(t, "the `controllers` to run: 'foo' runs foo, '-foo' does not, '*' runs all that are not disabled by default.\n"+
		"All: foo-controller (foo), bar-controller (bar, b), token-cleaner\nDisabled by default: token-cleaner", three(t).Usage())
}

func TestRegistryRefuses(t *testing.T) {
	for want, descriptors := range map[string][]controllermanager.Descriptor{
		`controller 0, "foo": New is nil: there is nothing to run`:                                    {{Name: "foo"}},
		`controller 0, "": "" cannot be a name: it has a special meaning in a list of controllers`:    {{New: idle}},
		`controller 0, "a": "-a" cannot be a name: it has a special meaning in a list of controllers`: {{Name: "a", Aliases: []string{"-a"}, New: idle}},
		`controller "b": "a" means "a" already`:                                                       {{Name: "a", New: idle}, {Name: "b", Aliases: []string{"a"}, New: idle}},
	} {
		_, err := controllermanager.NewRegistry(descriptors...)
		require.EqualError(t, err, want)
	}
	_, err := controllermanager.NewRegistry(
		controllermanager.Descriptor{Name: "shop.example.com/a", Aliases: []string{"shop:a"}, New: idle},
		controllermanager.Descriptor{Name: "shop:janitor", New: idle},
	)
	require.ErrorContains(t, err, `controller 1: invalid event controller name "shop:janitor": `)
}

func TestResources(t *testing.T) {
	events := object.GVR{Group: "events.k8s.io", Version: "v1", Resource: "events"}
	served := controllermanager.Resources{events: true}
	require.True(t, served.Has(events))
	require.True(t, served.Has(object.GVR{Group: "events.k8s.io", Resource: "events"}))
	require.False(t, served.Has(object.GVR{Resource: "events"}))
	require.False(t, served.Has(object.GVR{Group: "events.k8s.io", Version: "v2", Resource: "events"}))
}

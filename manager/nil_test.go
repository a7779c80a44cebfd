package manager_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/rest/config"
)

// A runnable that is nil because of an earlier error is reported by Add, whatever its type.
func TestNilRunnableIsReportedAtOnce(t *testing.T) {
	m, err := manager.New(&config.Config{Host: "http://x"}, manager.Options{})
	require.NoError(t, err)
	for name, r := range map[string]manager.Runnable{
		"nothing":    nil,
		"controller": (*controller.Controller)(nil),
		"function":   manager.RunnableFunc(nil),
	} {
		for _, add := range []func(){
			func() { _ = m.Add(r) },
			func() { _ = m.AddTo(manager.Others, r) },
		} {
			func() {
				defer func() { require.Contains(t, recover(), "manager/nil_test.go:", name) }()
				add()
				t.Error("it was taken")
			}()
		}
	}
}

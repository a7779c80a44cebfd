package controllermanager_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/controllermanager"
	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/rest/config"
)

// Controllers that only the leader may run are in a second Manager. One manager.Manager runs both: the first one in
// every process, the second one on the leader.
func TestTwoManagersInOneProgram(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		program, err := manager.New(&config.Config{Host: "http://127.0.0.1:1"}, manager.Options{})
		require.NoError(e, err)
		shared, err := controllermanager.New(registry(t, controllermanager.Descriptor{Name: "shared", New: labeller}), program.Factory(), controllermanager.Options{Shard: half})
		require.NoError(e, err)
		leaders, err := controllermanager.New(registry(t, controllermanager.Descriptor{Name: "leaders", New: labeller}), program.Factory(), controllermanager.Options{Name: "leaders"})
		require.NoError(e, err)
		require.NoError(e, program.Add(shared))
		require.NoError(e, program.Add(leaders))
	})
}

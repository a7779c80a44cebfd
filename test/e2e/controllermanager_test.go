package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/controllermanager"
	"github.com/millrace-dev/millrace/examples/controller-manager/controllers"
	"github.com/millrace-dev/millrace/examples/controller-manager/life"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/manager"
)

// TestDeploymentLife: the controllers of examples/controller-manager run in a manager, take a
// Deployment through its life on a real server, and stop.
func TestDeploymentLife(t *testing.T) {
	client, ns := admin(t)
	cfg := loadConfig(t, shared, "admin")
	m, err := manager.New(cfg, manager.Options{Factory: factory.Options{Scope: factory.Scope{Namespaces: []string{ns}}}})
	require.NoError(t, err)
	registry, err := controllers.Registry()
	require.NoError(t, err)
	cm, err := controllermanager.New(registry, m.Factory(), controllermanager.Options{NewClient: controllermanager.Clients(cfg, m.Scheme())})
	require.NoError(t, err)
	kubelet, err := life.Kubelet(m.Factory(), 0)
	require.NoError(t, err)
	require.NoError(t, m.Add(cm))
	require.NoError(t, m.Add(kubelet))
	r := runManager(t, m)

	life.Run(life.World{TB: t, Client: client, Namespace: ns, Until: func(reached func() error) {
		t.Helper()
		deadline := time.Now().Add(time.Minute)
		for err := reached(); err != nil; err = reached() {
			if time.Now().After(deadline) {
				t.Fatalf("%v\ncontrollers: %+v, ready: %v\n%s", err, cm.Status(), cm.Ready(), fmt.Sprint(r.Report()))
			}
			select {
			case err := <-r.ended:
				t.Fatalf("the manager ended: %v", err)
			case <-time.After(20 * time.Millisecond):
			}
		}
	}})

	r.stop()
	select {
	case err := <-r.ended:
		require.NoError(t, err)
	case <-time.After(time.Minute):
		t.Fatalf("not stopped: %+v", cm.Status())
	}
	for _, s := range cm.Status() {
		require.Equal(t, controllermanager.Ended, s.State, s.Name)
	}
}

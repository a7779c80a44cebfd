package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/leaderelection"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
)

// A contender is this test program in a separate process, which can be killed.
const (
	contenderNamespace = "MILLRACE_CONTENDER_NAMESPACE" // its namespace; if set, the program is a contender
	contenderName      = "MILLRACE_CONTENDER_NAME"
	contended          = 3 * time.Second // the lease duration
)

// contend runs a manager that takes part in an election and, while it leads, signs each ConfigMap
// with its name and token.
func contend(ns string) {
	err := func() error {
		cfg, err := config.Load()
		if err != nil {
			return err
		}
		name := os.Getenv(contenderName)
		m, err := manager.New(cfg, manager.Options{Factory: factory.Options{Scope: factory.Scope{Namespaces: []string{ns}}}, LeaderElection: &leaderelection.Options{
			Namespace: ns, Name: "killed", Identity: name, LeaseDuration: contended, RenewDeadline: 2 * time.Second, RetryPeriod: 200 * time.Millisecond,
		}})
		if err != nil {
			return err
		}
		maps := controller.ClientFor[*corev1.ConfigMap](m.Factory())
		c, err := controller.New("signer", controller.Objects(maps, func(ctx context.Context, o *corev1.ConfigMap) (controller.Result, error) {
			token, _ := leaderelection.Token(ctx)
			if o.Data["by"] != "" {
				return controller.Result{}, nil
			}
			o.Data = map[string]string{"by": name, "token": strconv.FormatInt(token, 10)}
			_, err := maps.Update(ctx, o)
			return controller.Result{}, err
		}), m.ControllerOptions())
		if err != nil {
			return err
		}
		c.Watch(controller.For(maps.Informer()))
		if err := m.Add(c); err != nil {
			return err
		}
		return m.Run(manager.SignalContext())
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// TestAKilledLeaderIsSucceeded: processes compete for a lease, and the leader is killed repeatedly
// with SIGKILL. It does not release the lease, so no other process leads before the lease has
// expired. Each successor has a greater token, and signs its writes with it.
func TestAKilledLeaderIsSucceeded(t *testing.T) {
	client, ns := admin(t)
	run := func(name string) *exec.Cmd {
		contender := exec.Command(os.Args[0])
		contender.Env = append(os.Environ(), contenderNamespace+"="+ns, contenderName+"="+name, "KUBECONFIG="+shared.Kubeconfig)
		logged := &strings.Builder{}
		contender.Stderr = logged
		require.NoError(t, contender.Start())
		t.Cleanup(func() {
			_ = contender.Process.Kill() // it may have ended
			_ = contender.Wait()         // with any status
			if t.Failed() {
				t.Logf("%s: %s", name, logged)
			}
		})
		return contender
	}
	leases := rest.ResourceFor[*coordinationv1.Lease](client).Namespace(ns)
	maps := rest.ResourceFor[*corev1.ConfigMap](client).Namespace(ns)
	signed := func(n int) (by, token string) {
		_, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name(n)}}, metav1.CreateOptions{})
		require.NoError(t, err)
		poll(t, "it is signed", func() error {
			o, err := maps.Get(t.Context(), object.Key{Name: name(n)}, metav1.GetOptions{})
			if err == nil && o.Data["by"] == "" {
				err = fmt.Errorf("nobody has")
			}
			if err == nil {
				by, token = o.Data["by"], o.Data["token"]
			}
			return err
		})
		return by, token
	}
	contenders := map[string]*exec.Cmd{"a": run("a"), "b": run("b"), "c": run("c")}
	for n := 1; len(contenders) > 0; n++ {
		by, token := signed(n)
		require.Equal(t, strconv.Itoa(n), token)
		before, err := leases.Get(t.Context(), object.Key{Name: "killed"}, metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, by, *before.Spec.HolderIdentity)
		require.EqualValues(t, n, *before.Spec.LeaseTransitions)

		require.NoError(t, contenders[by].Process.Kill())
		require.Error(t, contenders[by].Wait())
		delete(contenders, by)
		last, err := leases.Get(t.Context(), object.Key{Name: "killed"}, metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, by, *last.Spec.HolderIdentity, "it could release nothing")
		if len(contenders) == 0 {
			break
		}
		poll(t, "it is succeeded", func() error {
			now, err := leases.Get(t.Context(), object.Key{Name: "killed"}, metav1.GetOptions{})
			if err == nil && *now.Spec.HolderIdentity == by {
				return fmt.Errorf("%s holds it", by)
			}
			if err == nil {
				require.GreaterOrEqual(t, now.Spec.AcquireTime.Sub(last.Spec.RenewTime.Time), contended, "not before it has run out")
			}
			return err
		})
	}
}

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/millrace-dev/millrace/debug"
	memcachedv1 "github.com/millrace-dev/millrace/examples/memcached/api/v1"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
)

// TestTheMemcachedOperator runs examples/memcached as its README does: it installs the kind and the
// webhook, and creates, scales and deletes an object. The test plays the controllers that would run
// the Deployments.
func TestTheMemcachedOperator(t *testing.T) {
	_, ns := admin(t)
	kinds := newScheme(t)
	require.NoError(t, memcachedv1.AddToScheme(kinds))
	client, err := rest.NewClient(loadConfig(t, shared, "admin"), kinds)
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	key := object.Key{Namespace: ns, Name: "carts"}
	memcacheds := rest.ResourceFor[*memcachedv1.Memcached](client).Namespace(ns)
	deployments := rest.ResourceFor[*appsv1.Deployment](client).Namespace(ns)
	pods := rest.ResourceFor[*corev1.Pod](client).Namespace(ns)

	kubeconfig := memcachedUser(t, client)
	t.Cleanup(func() { uninstallMemcached(t, client) }) // after the program has ended
	program := buildMemcached(t)                        // before the free addresses are chosen, which another process may take
	probes, inside := freeAddress(t), freeAddress(t)
	stop := runMemcached(t, program, kubeconfig, "--install", "--leader-elect", "--webhook-address=127.0.0.1:0", "--metrics-address=0", "--probe-address="+probes, "--debug-address="+inside)
	poll(t, "it is ready", func() error {
		resp, err := http.Get("http://" + probes + "/readyz")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("it answers %s", resp.Status)
		}
		return nil
	})

	// Create: the webhook refuses invalid objects, and the controller deploys valid ones.
	wanted := func(image string) *memcachedv1.Memcached {
		return &memcachedv1.Memcached{ObjectMeta: metav1.ObjectMeta{Name: key.Name}, Spec: memcachedv1.MemcachedSpec{Size: 3, Image: image}}
	}
	poll(t, "the webhook refuses", func() error { // the server takes a moment to load new configurations
		_, err := memcacheds.Create(t.Context(), wanted("memcached"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if !apierrors.IsForbidden(err) {
			return fmt.Errorf("the answer was %w", err)
		}
		require.ErrorContains(t, err, "has no version")
		return nil
	})
	m, err := memcacheds.Create(t.Context(), wanted("memcached:1.6"), metav1.CreateOptions{})
	require.NoError(t, err)
	deployed := func(size int32) *appsv1.Deployment {
		t.Helper()
		var d *appsv1.Deployment
		poll(t, "it is deployed", func() (err error) {
			if d, err = deployments.Get(t.Context(), key, metav1.GetOptions{}); err == nil && *d.Spec.Replicas != size {
				err = fmt.Errorf("it has %d replicas", *d.Spec.Replicas)
			}
			return err
		})
		return d
	}
	stands := func(size int32, is metav1.ConditionStatus, nodes ...string) {
		t.Helper()
		poll(t, "the status is told", func() (err error) {
			if m, err = memcacheds.Get(t.Context(), key, metav1.GetOptions{}); err != nil {
				return err
			}
			c := meta.FindStatusCondition(m.Status.Conditions, memcachedv1.Available)
			if c == nil || c.Status != is || c.ObservedGeneration != m.Generation || fmt.Sprint(m.Status.Nodes) != fmt.Sprint(nodes) || m.Spec.Size != size {
				return fmt.Errorf("it is %+v", m)
			}
			return nil
		})
	}
	d := deployed(3)
	require.True(t, metav1.IsControlledBy(d, m))
	stands(3, metav1.ConditionFalse)

	// Its nodes become ready.
	serve := func(d *appsv1.Deployment, nodes ...string) {
		t.Helper()
		for _, node := range nodes {
			_, err := pods.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: node, Labels: d.Spec.Template.Labels}, Spec: d.Spec.Template.Spec}, metav1.CreateOptions{})
			require.NoError(t, err)
		}
		patch := fmt.Sprintf(`{"status": {"replicas": %[1]d, "readyReplicas": %[1]d, "availableReplicas": %[1]d}}`, *d.Spec.Replicas)
		_, err := deployments.Subresource("status").Patch(t.Context(), key, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		require.NoError(t, err)
	}
	serve(d, "a", "b", "c")
	stands(3, metav1.ConditionTrue, "a", "b", "c")

	// The program exposes its state.
	poll(t, "nothing is left to reconcile", func() error {
		seen, err := debug.Attach("http://"+inside, nil).Why(t.Context(), "memcacheds", "", key)
		if err == nil && seen.Reasons[0].Cause != debug.Reconciled {
			err = fmt.Errorf("the reasons are %v", seen.Reasons)
		}
		return err
	})

	// Scale: down to 0 is refused, up is allowed.
	scale := func(size int32) error {
		_, err := memcacheds.Patch(t.Context(), key, types.MergePatchType, fmt.Appendf(nil, `{"spec": {"size": %d}}`, size), metav1.PatchOptions{})
		return err
	}
	require.ErrorContains(t, scale(0), "from 3 to 0 nodes")
	require.NoError(t, scale(4))
	d = deployed(4)
	stands(4, metav1.ConditionFalse, "a", "b", "c")
	serve(d, "d")
	stands(4, metav1.ConditionTrue, "a", "b", "c", "d")

	// Delete: the Deployment first, and the Memcached after its last node.
	require.NoError(t, memcacheds.Delete(t.Context(), key, metav1.DeleteOptions{}))
	poll(t, "the deployment is gone", func() error {
		if _, err := deployments.Get(t.Context(), key, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the answer was %w", err)
		}
		return nil
	})
	for _, node := range []string{"a", "b", "c", "d"} {
		m, err = memcacheds.Get(t.Context(), key, metav1.GetOptions{})
		require.NoError(t, err, "before %s is gone", node)
		require.NotNil(t, m.DeletionTimestamp)
		require.NoError(t, pods.Delete(t.Context(), object.Key{Name: node}, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
	}
	poll(t, "the memcached is gone", func() error {
		if _, err := memcacheds.Get(t.Context(), key, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the answer was %w", err)
		}
		return nil
	})

	// The Deployment was written twice, with a different event each time.
	stop()
	told := map[string]bool{}
	for event, err := range rest.ResourceFor[*eventsv1.Event](client).Namespace(ns).List(t.Context(), metav1.ListOptions{}).Items {
		require.NoError(t, err)
		require.Equal(t, "Deployed", event.Reason)
		require.Nil(t, event.Series)
		told[event.Note] = true
	}
	require.Len(t, told, 2, "%v", told)
}

// memcachedUser returns a kubeconfig for a user with the rights in rbac.yaml and those that
// --install needs.
func memcachedUser(t *testing.T, client *rest.Client) (kubeconfig string) {
	t.Helper()
	document, err := os.ReadFile("../../examples/memcached/rbac.yaml")
	require.NoError(t, err)
	role := &rbacv1.ClusterRole{}
	require.NoError(t, yaml.UnmarshalStrict(document, role))
	user := role.Name
	roles, bindings := rest.ResourceFor[*rbacv1.ClusterRole](client), rest.ResourceFor[*rbacv1.ClusterRoleBinding](client)
	for _, role := range []*rbacv1.ClusterRole{role, {
		ObjectMeta: metav1.ObjectMeta{Name: user + "-install"},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"}, Verbs: []string{"create", "patch"}},
			{APIGroups: []string{"admissionregistration.k8s.io"}, Resources: []string{"validatingwebhookconfigurations"}, Verbs: []string{"create", "patch"}},
		},
	}} {
		_, err := roles.Create(t.Context(), role, metav1.CreateOptions{})
		require.NoError(t, err)
		_, err = bindings.Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role.Name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
			Subjects:   []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: user}},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		t.Cleanup(func() {
			key := object.Key{Name: role.Name}
			require.NoError(t, errors.Join(bindings.Delete(context.Background(), key, metav1.DeleteOptions{}), roles.Delete(context.Background(), key, metav1.DeleteOptions{})))
		})
	}
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(kubeconfig, fmt.Appendf(nil, `
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, certificate-authority: %q}}]
users: [{name: u, user: {token: %q, as: %q}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
`, shared.URL, shared.CAFile, shared.AdminToken, user), 0o600))
	return kubeconfig
}

func buildMemcached(t *testing.T) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "memcached")
	out, err := exec.CommandContext(t.Context(), "go", "-C", "../..", "build", "-o", program, "./examples/memcached").CombinedOutput()
	require.NoError(t, err, string(out))
	return program
}

// runMemcached runs the operator. It is stopped as by Ctrl-C, when the test ends at the latest.
func runMemcached(t *testing.T, program, kubeconfig string, args ...string) (stop func()) {
	t.Helper()
	run := exec.Command(program, args...)
	run.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	var logged bytes.Buffer
	run.Stderr = &logged
	require.NoError(t, run.Start())
	stopped := false
	stop = func() {
		t.Helper()
		if stopped {
			return
		}
		stopped = true
		if err := run.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		if err := run.Wait(); err != nil || t.Failed() {
			t.Errorf("it ended with %v and logged:\n%s", err, logged.String())
		}
	}
	t.Cleanup(stop)
	return stop
}

// uninstallMemcached reverts --install.
func uninstallMemcached(t *testing.T, client *rest.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline) // the context of the test is done
	defer cancel()
	hooks := rest.ResourceFor[*admissionregistrationv1.ValidatingWebhookConfiguration](client)
	require.NoError(t, hooks.Delete(ctx, object.Key{Name: "memcacheds.cache.example.com"}, metav1.DeleteOptions{}))
	crd, err := rest.ResourceForKind[*metav1.PartialObjectMetadata](client, crdKind).Get(ctx, object.Key{Name: "memcacheds.cache.example.com"}, metav1.GetOptions{})
	require.NoError(t, err)
	undefine(t, client, crd.Name, crd.UID)
}

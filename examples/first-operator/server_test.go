package main

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"example.com/sandbox/api/v1"
	"github.com/millrace-dev/millrace/envtest"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/scheme"
)

// The operator runs as its service account, so with the rights of deploy/role.yaml alone,
// and the real API server asks its webhook.
func TestOnARealServer(t *testing.T) {
	srv := envtest.Start(t, envtest.Options{Files: []string{
		"deploy/dev.example.com_sandboxes.yaml", "deploy/operator.yaml", "deploy/role.yaml", "deploy/webhook.yaml",
	}})
	hook, err := srv.Webhook()
	require.NoError(t, err)
	cfg := load(t, srv.Kubeconfig)
	cfg.Namespace, cfg.Impersonate.UserName = "sandbox-operator", "system:serviceaccount:sandbox-operator:sandbox"
	f := flags{elect: true, webhook: hook.Address(), certDir: hook.CertDir}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- run(ctx, cfg, f, slog.New(slog.NewTextHandler(t.Output(), nil))) }()
	defer func() { stop(); require.NoError(t, <-ended) }()

	user, err := srv.AddUser(t.Context(), envtest.User{Name: "ann", Rules: []envtest.Rule{
		{Verbs: []string{"create", "get"}, APIGroups: []string{"dev.example.com"}, Resources: []string{"sandboxes"}},
	}})
	require.NoError(t, err)
	kinds := scheme.New()
	require.NoError(t, v1.AddToScheme(kinds))
	client, err := rest.NewClient(load(t, user.Kubeconfig), kinds)
	require.NoError(t, err)
	defer client.CloseIdleConnections()
	sandboxes := rest.ResourceFor[*v1.Sandbox](client)
	create := func(name, owner string) error {
		s := &v1.Sandbox{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.SandboxSpec{Owner: owner}}
		_, err := sandboxes.Create(t.Context(), s, metav1.CreateOptions{})
		return err
	}

	eventually(t, func() error { return create("ann", "ann") }) // refused until the webhook is there
	require.ErrorContains(t, create("bob", "bob"), `you are "ann" and cannot create a sandbox for "bob"`)
	require.ErrorContains(t, create("a.b", "ann"), "the name of a sandbox is part of a namespace's")

	eventually(t, func() error {
		s, err := sandboxes.Get(t.Context(), object.Key{Name: "ann"}, metav1.GetOptions{})
		if err == nil && !meta.IsStatusConditionTrue(s.Status.Conditions, v1.Ready) {
			err = fmt.Errorf("it is not ready: %+v", s.Status)
		}
		if err == nil {
			require.Equal(t, s.CreationTimestamp.Add(24*time.Hour), s.Status.Expires.Time)
		}
		return err
	})
	admin, err := rest.NewClient(load(t, srv.Kubeconfig), kinds)
	require.NoError(t, err)
	defer admin.CloseIdleConnections()
	b, err := rest.ResourceFor[*rbacv1.RoleBinding](admin).Get(t.Context(), part, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "ann may edit", b.Subjects[0].Name+" may "+b.RoleRef.Name)
}

func load(t *testing.T, kubeconfig string) *config.Config {
	t.Helper()
	cfg, err := config.LoadWith(config.LoadOptions{Kubeconfig: kubeconfig})
	require.NoError(t, err)
	return cfg
}

// eventually waits until f returns nil, and fails with its last error after half a minute.
func eventually(t *testing.T, f func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if err = f(); err == nil {
			return
		}
	}
	require.NoError(t, err)
}

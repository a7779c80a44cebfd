package controllerruntime_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/go-logr/logr"

	"github.com/millrace-dev/millrace/adapters/clientgo"
	"github.com/millrace-dev/millrace/envtest"
	"github.com/millrace-dev/millrace/shard/membership"
)

// TestTheOperator runs the same operator on a real API server, with stock controller-runtime and
// with each line of the README. The final objects are equal.
func TestTheOperator(t *testing.T) {
	server := envtest.Start(t, envtest.Options{})
	config, err := clientcmd.BuildConfigFromFlags("", server.Kubeconfig)
	require.NoError(t, err)
	config.QPS = -1
	ctrl.SetLogger(logr.Discard())
	kinds := runtime.NewScheme()
	require.NoError(t, scheme.AddToScheme(kinds))
	kinds.AddKnownTypes(greetingVersion, &Greeting{}, &GreetingList{})
	metav1.AddToGroupVersion(kinds, greetingVersion)
	c, err := client.New(config, client.Options{Scheme: kinds})
	require.NoError(t, err)
	define(t, c)

	want := live(t, config, c, kinds, "stock")
	require.Contains(t, want, "Greeting g2: keeps adapters.example.com/farewell, said good evening")
	for way := range ways {
		if way != "stock" {
			require.Equal(t, want, live(t, config, c, kinds, way), way)
		}
	}
}

// define creates the definition of Greetings.
func define(t *testing.T, c client.Client) {
	t.Helper()
	definition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "greetings." + greetingVersion.Group},
		"spec": map[string]any{
			"group": greetingVersion.Group, "scope": "Namespaced",
			"names": map[string]any{"plural": "greetings", "kind": "Greeting", "listKind": "GreetingList"},
			"versions": []any{map[string]any{
				"name": greetingVersion.Version, "served": true, "storage": true,
				"subresources": map[string]any{"status": map[string]any{}},
				"schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type": "object", "x-kubernetes-preserve-unknown-fields": true,
				}},
			}},
		},
	}}
	require.NoError(t, c.Create(t.Context(), definition))
	poll(t, "Greetings are served", func() error {
		err := c.List(t.Context(), &GreetingList{})
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			return err
		}
		require.NoError(t, err)
		return nil
	})
}

// live runs the operator in its own namespace and returns a description of the final objects.
func live(t *testing.T, cfg *rest.Config, c client.Client, kinds *runtime.Scheme, way string) string {
	t.Helper()
	ctx := t.Context()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "operator-"}}
	require.NoError(t, c.Create(ctx, ns))
	running := start(t, cfg, kinds, ns.Name, way)
	defer func() {
		for _, stop := range running {
			stop()
		}
	}()
	const count = 20
	for _, name := range []string{"morning", "evening"} {
		require.NoError(t, c.Create(ctx, secret(ns.Name, name)))
	}
	for n := range count {
		g := &Greeting{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: fmt.Sprint("g", n)}}
		g.Spec.Secret = []string{"morning", "evening", "late"}[n%3]
		require.NoError(t, c.Create(ctx, g))
	}
	said := func(name, words string) {
		t.Helper()
		poll(t, way+": "+name+" says "+words, func() error {
			var m corev1.ConfigMap
			if err := c.Get(ctx, client.ObjectKey{Namespace: ns.Name, Name: name}, &m); err != nil {
				return err
			}
			var g Greeting
			if err := c.Get(ctx, client.ObjectKeyFromObject(&m), &g); err != nil {
				return err
			}
			if m.Data["words"] != words || g.Status.Said != words {
				return fmt.Errorf("%v, %q", m.Data, g.Status.Said)
			}
			return nil
		})
	}
	for n := range count {
		if n%3 < 2 { // the Secret of the others comes later
			said(fmt.Sprint("g", n), []string{"good morning", "good evening"}[n%3])
		}
	}

	// A changed or deleted owned object is restored.
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "g0"}}
	require.NoError(t, c.Patch(ctx, m, client.RawPatch(types.MergePatchType, []byte(`{"data":{"words":"bad"}}`))))
	said("g0", "good morning")
	require.NoError(t, c.Delete(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "g1"}}))
	said("g1", "good evening")

	// The index finds the Greetings of a shared Secret.
	require.NoError(t, c.Create(ctx, secret(ns.Name, "late")))
	said("g8", "good late")
	s := secret(ns.Name, "late")
	s.Data["words"] = []byte("good evening")
	require.NoError(t, c.Update(ctx, s))
	for _, name := range []string{"g2", "g5", "g8"} {
		said(name, "good evening")
	}

	// One of several replicas leaves, and the others continue.
	if len(running) > 1 {
		require.Len(t, writers(t, c, ns.Name), len(running), "all have been at work")
		running[0]()
		running = running[1:]
	}

	// A deletion runs the finalizer.
	g3 := &Greeting{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "g3"}}
	require.NoError(t, c.Delete(ctx, g3))
	poll(t, way+": g3 is gone", func() error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(g3), g3); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %v", err)
		}
		return nil
	})
	for n := range count {
		if n != 3 {
			said(fmt.Sprint("g", n), []string{"good morning", "good evening", "good evening"}[n%3])
		}
	}
	return tell(t, c, ns.Name)
}

func secret(namespace, name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{"words": []byte("good " + name)}}
}

// tell describes the objects, without values that differ from run to run.
func tell(t *testing.T, c client.Client, namespace string) string {
	t.Helper()
	var lines []string
	var greetings GreetingList
	require.NoError(t, c.List(t.Context(), &greetings, client.InNamespace(namespace)))
	for _, g := range greetings.Items {
		lines = append(lines, fmt.Sprintf("Greeting %s: keeps %s, said %s", g.Name, strings.Join(g.Finalizers, ","), g.Status.Said))
	}
	var maps corev1.ConfigMapList
	require.NoError(t, c.List(t.Context(), &maps, client.InNamespace(namespace)))
	for _, m := range maps.Items {
		owner := metav1.GetControllerOf(&m)
		lines = append(lines, fmt.Sprintf("ConfigMap %s: %v, owned %t", m.Name, m.Data, owner != nil))
	}
	return strings.Join(lines, "\n")
}

// start runs the operator in one way, in as many managers as needed, and returns a stop function
// for each. It returns after all replicas have their shares.
func start(t *testing.T, cfg *rest.Config, kinds *runtime.Scheme, namespace, way string) (running []func()) {
	t.Helper()
	for n := range max(replicas[way], 1) {
		cfg := rest.CopyConfig(cfg)
		cfg.UserAgent = fmt.Sprintf("greeter-%d/test", n)
		m, err := ways[way](cfg, ctrl.Options{
			Scheme: kinds, Metrics: metricsserver.Options{BindAddress: "0"},
			Controller: config.Controller{SkipNameValidation: new(true)},
			Cache:      cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
		})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.Start(ctx) }()
		running = append(running, func() {
			cancel()
			require.NoError(t, <-ended)
		})
	}
	if len(running) > 1 {
		shared(t, cfg, len(running))
	}
	return running
}

// shared waits until the members of the group have equal shares.
func shared(t *testing.T, cfg *rest.Config, members int) {
	t.Helper()
	client, err := clientgo.FromConfig(cfg)
	require.NoError(t, err)
	poll(t, "the members have their shares", func() error {
		groups, err := membership.Look(t.Context(), client, "default", "greeters")
		if err != nil {
			return err
		}
		if len(groups) != 1 || len(groups[0].Members) != members {
			return fmt.Errorf("%+v", groups)
		}
		for _, m := range groups[0].Members {
			if has := m.Claims.Len(); has < groups[0].Slots/(members+1) || has != m.Wanted {
				return fmt.Errorf("%s has %d slots, and is to have %d", m.Identity, has, m.Wanted)
			}
		}
		return nil
	})
}

// writers returns the user agents that have written the ConfigMaps in a namespace.
func writers(t *testing.T, c client.Client, namespace string) map[string]bool {
	t.Helper()
	var maps corev1.ConfigMapList
	require.NoError(t, c.List(t.Context(), &maps, client.InNamespace(namespace)))
	by := map[string]bool{}
	for _, m := range maps.Items {
		for _, entry := range m.ManagedFields {
			if strings.HasPrefix(entry.Manager, "greeter-") {
				by[entry.Manager] = true
			}
		}
	}
	return by
}

// poll calls done until it returns nil.
func poll(t *testing.T, what string, done func() error) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		err := done()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

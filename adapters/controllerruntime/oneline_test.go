package controllerruntime_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/millrace-dev/millrace/adapters/clientgo"
	millrace "github.com/millrace-dev/millrace/adapters/controllerruntime"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/shard/membership"
	"github.com/millrace-dev/millrace/wire"
)

// ways are the ways to run the operator: the stock one, and each line that the README shows.
// TestTheOperator runs them all.
var ways = map[string]func(*rest.Config, ctrl.Options) (ctrl.Manager, error){
	"stock":              asItIs,
	"NewCache":           withNewCache,
	"NewInformer":        withNewInformer,
	"NewCache, NewQueue": withNewQueue,
	"Options.NewCache":   withoutManagedFields,
	"Sharded":            withSharing,
}

// replicas is how many managers a way needs, if not one.
var replicas = map[string]int{"Sharded": 2}

func asItIs(config *rest.Config, options ctrl.Options) (ctrl.Manager, error) {
	manager, err := ctrl.NewManager(config, options)
	if err != nil {
		return nil, err
	}
	return manager, install(manager, controller.Options{})
}

func withNewCache(config *rest.Config, options ctrl.Options) (ctrl.Manager, error) {
	options.NewCache = millrace.NewCache
	manager, err := ctrl.NewManager(config, options)
	if err != nil {
		return nil, err
	}
	return manager, install(manager, controller.Options{})
}

func withNewInformer(config *rest.Config, options ctrl.Options) (ctrl.Manager, error) {
	options.Cache.NewInformer = clientgo.NewInformer
	manager, err := ctrl.NewManager(config, options)
	if err != nil {
		return nil, err
	}
	return manager, install(manager, controller.Options{})
}

func withNewQueue(config *rest.Config, options ctrl.Options) (ctrl.Manager, error) {
	options.NewCache = millrace.NewCache
	manager, err := ctrl.NewManager(config, options)
	if err != nil {
		return nil, err
	}
	return manager, install(manager, controller.Options{NewQueue: millrace.NewQueue[ctrl.Request]})
}

func withoutManagedFields(config *rest.Config, options ctrl.Options) (ctrl.Manager, error) {
	options.NewCache = millrace.Options{Keep: wire.WithoutManagedFields}.NewCache
	manager, err := ctrl.NewManager(config, options)
	if err != nil {
		return nil, err
	}
	return manager, install(manager, controller.Options{})
}

func withSharing(config *rest.Config, options ctrl.Options) (ctrl.Manager, error) {
	group, err := millrace.NewGroup(config, membership.Options{Namespace: "default", Name: "greeters"})
	if err != nil {
		return nil, err
	}
	shards := map[client.Object]shard.Scope{&Greeting{}: group.Shard(shard.ByUID()), &corev1.ConfigMap{}: group.Shard(shard.ByOwner())}
	options.NewCache = millrace.Options{Shards: shards}.NewCache
	manager, err := ctrl.NewManager(config, options)
	if err != nil {
		return nil, err
	}
	err = manager.Add(group)
	if err != nil {
		return nil, err
	}
	g := &greeter{manager.GetClient()}
	reconciler, err := millrace.Sharded(manager.GetCache(), g, &Greeting{}, &corev1.ConfigMap{})
	if err != nil {
		return nil, err
	}
	return manager, g.install(manager, controller.Options{}, reconciler)
}

// Every line of the README's Go blocks is in this file, so it compiles and runs.
func TestReadmeExampleRuns(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	source, err := os.ReadFile("oneline_test.go")
	require.NoError(t, err)
	lines := map[string]bool{}
	for line := range strings.Lines(string(source)) {
		lines[strings.TrimSpace(line)] = true
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	require.Len(t, blocks, 6)
	for _, block := range blocks {
		for line := range strings.Lines(block[1]) {
			require.True(t, lines[strings.TrimSpace(line)], "nothing runs %q", line)
		}
	}
}

package main

import (
	"context"
	"errors"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	cacheddiscovery "k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/metadata"
	clientrest "k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	"k8s.io/controller-manager/pkg/clientbuilder"
	"k8s.io/controller-manager/pkg/healthz"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
	"k8s.io/kubernetes/cmd/kube-controller-manager/names"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
)

// The client does not throttle requests, to keep rounds short.
const (
	qps   = 1000
	burst = 2000
)

// recount is how often quotas are recounted. The server adds a Pod to its quota before it stores the
// Pod. If the controller sees the quota first, which can happen with any informers, it writes a count
// without the Pod. By default, it corrects that after five minutes.
const recount = 10 * time.Second

// manager is kube-controller-manager.
type manager struct {
	config      *clientrest.Config // for its clients
	context     app.ControllerContext
	controllers []app.Controller
	patience    time.Duration // for controllers to end
}

// newManager builds the controllers as kube-controller-manager does, but with other informers.
func newManager(ctx context.Context, kubeconfig string, asked *requests, choose func(settings) (*factories, error)) (*manager, error) {
	o, err := options.NewKubeControllerManagerOptions()
	if err != nil {
		return nil, err
	}
	o.Generic.ClientConnection.Kubeconfig = kubeconfig
	o.Generic.ClientConnection.QPS, o.Generic.ClientConnection.Burst = qps, burst
	o.Generic.LeaderElection.LeaderElect = false
	o.SecureServing.BindPort = 0 // no server
	raw, err := o.Config(ctx, app.KnownControllers(), app.ControllersDisabledByDefault(), app.ControllerAliases())
	if err != nil {
		return nil, err
	}
	raw.ComponentConfig.ResourceQuotaController.ResourceQuotaSyncPeriod.Duration = recount
	c := raw.Complete()
	c.Kubeconfig.Wrap(asked.wrap)
	f, err := choose(settings{config: c.Kubeconfig, resync: app.ResyncPeriod(c)()})
	if err != nil {
		return nil, err
	}
	m := &manager{config: c.Kubeconfig, patience: c.ControllerShutdownTimeout, context: app.ControllerContext{
		ClientBuilder:                   clientbuilder.SimpleControllerClientBuilder{ClientConfig: c.Kubeconfig},
		InformerFactory:                 f.typed,
		ObjectOrMetadataInformerFactory: informerfactory.NewInformerFactory(f.typed, f.metadata),
		ComponentConfig:                 c.ComponentConfig,
		InformersStarted:                make(chan struct{}),
		ResyncPeriod:                    app.ResyncPeriod(c),
		ControllerManagerMetrics:        controllersmetrics.NewControllerManagerMetrics("kube-controller-manager"),
	}}
	if err := m.addGraph(ctx); err != nil {
		return nil, err
	}
	all := app.NewControllerDescriptors()
	maps.DeleteFunc(all, func(name string, _ *app.ControllerDescriptor) bool {
		return name == names.ServiceAccountTokenController // needs the signing key
	})
	m.controllers, err = app.BuildControllers(ctx, m.context, all, nil, healthz.NewMutableHealthzHandler())
	return m, err
}

// addGraph adds the clients that only the garbage collector needs.
func (m *manager) addGraph(ctx context.Context) error {
	lookup, err := discovery.NewDiscoveryClientForConfig(m.config)
	if err != nil {
		return err
	}
	objects, err := metadata.NewForConfig(m.config)
	if err != nil {
		return err
	}
	c := &m.context
	c.RESTMapper = restmapper.NewDeferredDiscoveryRESTMapper(cacheddiscovery.NewMemCacheClient(lookup))
	ignored := make(map[schema.GroupResource]struct{})
	for _, r := range c.ComponentConfig.GarbageCollectorController.GCIgnoredResources {
		ignored[schema.GroupResource{Group: r.Group, Resource: r.Resource}] = struct{}{}
	}
	c.GraphBuilder = garbagecollector.NewDependencyGraphBuilder(ctx, objects, c.RESTMapper, ignored, c.ObjectOrMetadataInformerFactory, c.InformersStarted)
	return nil
}

// run runs informers and controllers until ctx is done.
func (m *manager) run(ctx context.Context) error {
	go wait.UntilWithContext(ctx, func(context.Context) { m.context.RESTMapper.Reset() }, 30*time.Second) // ends with ctx
	m.context.InformerFactory.Start(ctx.Done())
	defer m.context.InformerFactory.Shutdown()
	m.context.ObjectOrMetadataInformerFactory.Start(ctx.Done())
	close(m.context.InformersStarted)
	if !app.RunControllers(ctx, m.context, m.controllers, app.ControllerStartJitter, m.patience) {
		return errors.New("the controllers did not end in time")
	}
	return nil
}

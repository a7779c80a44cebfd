package readme

//lint:file-ignore SA4006,SA4009 what a recipe returns is for its reader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/leaderelection"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/metrics"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/serving"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/shard/membership"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/webhook"
	"github.com/millrace-dev/millrace/wire"
	"github.com/millrace-dev/millrace/workqueue"
)

// This contains, line for line, every block of Go in docs/cookbook.md and docs/testing.md, and
// every one in README.md except the first. It has to compile, but does not run.
var _ = []any{
	selecting, trimming, handling, reading, observing, writing,
	controlling, building, differing, conditioning, subresources, managing, electing, dividing, clusters, caching, measuring, admitting,
	testingOne, failing,
}

func selecting(client *rest.Client, f *factory.Factory, selector labels.Selector, gvk object.GVK) error {
	// one namespace, and a selector
	shop := factory.InformerWith(f, factory.For[*corev1.Pod]{Scope: factory.Scope{Namespaces: []string{"shop"}, Labels: selector}})

	// several namespaces in one cache
	some := factory.InformerWith(f, factory.For[*corev1.Pod]{Scope: factory.Scope{Namespaces: []string{"shop", "bank"}}})

	// a custom resource without Go types
	crontabs := factory.InformerWith(f, factory.For[*unstructured.Unstructured]{Kind: gvk})

	// only the metadata
	meta := factory.InformerWith(f, factory.For[*metav1.PartialObjectMetadata]{Kind: gvk})

	// a kind that may not be installed: only controllers wait for it, unless their source is Optional too
	gadgets := factory.InformerWith(f, factory.For[*unstructured.Unstructured]{Kind: gvk, Optional: true})

	// give an informer back: the last to do so stops it
	lent, giveBack := factory.Borrow(f, factory.For[*corev1.Pod]{Scope: factory.Scope{Namespaces: []string{"shop"}}})
	stopped := giveBack()
	_, _, _, _, _, _, _ = shop, lent, some, crontabs, meta, gadgets, stopped

	// namespaces that change at run time, for all informers that name none
	f = factory.New(client, factory.Options{Namespaces: []string{"shop", "bank"}})
	err := f.SetNamespaces([]string{"shop", "mail"})
	return err
}

func trimming(client *rest.Client, f *factory.Factory) {
	// no managed fields in any cache
	f = factory.New(client, factory.Options{Keep: wire.WithoutManagedFields})

	// only some fields; the others are not even decoded
	pods := factory.InformerWith(f, factory.For[*corev1.Pod]{Keep: wire.Only("metadata.labels", "spec.nodeName")})

	// objects changed before they are cached
	pods = factory.InformerWith(f, factory.For[*corev1.Pod]{Transform: func(p *corev1.Pod) (*corev1.Pod, error) {
		p.Annotations = nil
		return p, nil
	}})

	_ = pods
}

func handling(ctx context.Context, pods *sharedinformer.Informer[*corev1.Pod], h sharedinformer.Handler[*corev1.Pod]) error {
	// only some objects
	running := func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning }
	pods.AddHandler(sharedinformer.Filter(running, h))

	// a handler that may lag: of several updates of one object it gets the last
	pods.AddHandlerWith(h, sharedinformer.HandlerOptions{Lag: sharedinformer.Coalesce})

	// a resync for this handler only
	pods.AddHandlerWith(h, sharedinformer.HandlerOptions{Resync: 10 * time.Minute})

	// remove a handler, and wait until its call in progress returns
	registration := pods.AddHandler(h)
	err := registration.CloseAndWait(ctx)
	return err
}

func reading(ctx context.Context, client *rest.Client, pods *sharedinformer.Informer[*corev1.Pod], selector labels.Selector, key object.Key, pod *corev1.Pod) error {
	// by key, by namespace, by label
	p, ok := pods.Cache().Get(key)
	for p := range pods.Cache().Namespace("shop") {
		fmt.Println(p.Name)
	}
	for p := range pods.Cache().Select(selector) {
		fmt.Println(p.Name)
	}

	// by an index, which can be added at any time
	byNode := sharedinformer.AddIndex(pods, "node", func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
	for p := range byNode.Get("node-1") {
		fmt.Println(p.Name)
	}

	// wait until the cache has your own write
	written, err := rest.ResourceFor[*corev1.Pod](client).Namespace("shop").Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	err = pods.WaitForRV(ctx, written.ResourceVersion, written.Namespace)
	_, _ = p, ok
	return err
}

func observing(client *rest.Client, f *factory.Factory, logger *slog.Logger) {
	// state, failures, lag per handler
	for _, s := range f.Status() {
		fmt.Println(s.Type, s.Reflector.State, s.Objects, s.QueueDepth)
	}

	// the same for Prometheus
	prometheus.MustRegister(metrics.NewInformers(f, metrics.InformerOptions{}))

	// who changes cached objects? slow, for tests
	f = factory.New(client, factory.Options{Logger: logger, DetectMutations: time.Second})
}

func writing(ctx context.Context, client *rest.Client, pod *corev1.Pod, toleration corev1.Toleration, manifest []object.Object) error {
	// write to the server
	pods := rest.ResourceFor[*corev1.Pod](client).Namespace("shop")
	pod, err := pods.Create(ctx, pod, metav1.CreateOptions{})

	// read, change, send the difference; all of it again after a conflict
	pod, err = pods.Change(ctx, object.Key{Name: "web-0"}, func(p *corev1.Pod) error {
		p.Spec.Tolerations = append(p.Spec.Tolerations, toleration)
		return nil
	}, rest.ChangeOptions{Locked: true}) // a list is sent whole: this makes a write in between a conflict

	// objects of any kind, each through its own resource
	for _, o := range manifest {
		applied, err := rest.ResourceOf(client, o).Apply(ctx, o, metav1.ApplyOptions{FieldManager: "me"})
		if err != nil {
			return err // a conflict names the field and its owner; Force takes it over
		}
		fmt.Println(applied.GetName())
	}

	// queue work by key
	q := workqueue.New(workqueue.Options[object.Key]{Name: "pods"})
	q.Add(object.KeyOf(pod))
	return err
}

func controlling(m *manager.Manager) error {
	maps := manager.Client[*corev1.ConfigMap](m) // m is a *manager.Manager
	err := manager.ControllerFor(m, controller.LabelsChanged[*corev1.Namespace]()).Owns(maps).
		Complete(func(ctx context.Context, ns *corev1.Namespace) (controller.Result, error) {
			greeting := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "greeting"}}
			greeting.Data = map[string]string{"text": "hello " + ns.Labels["greet"]}
			_, err := maps.OwnedBy(ns).Apply(ctx, greeting, "greeter")
			return controller.Result{RequeueAfter: time.Hour}, err
		})
	err = m.Run(manager.SignalContext())
	return err
}

func building(ctx context.Context, m *manager.Manager, f *factory.Factory, maps *controller.Client[*corev1.ConfigMap],
	nodes *controller.Client[*corev1.Node], everyNamespace func(*corev1.Node) []controller.Request,
	greet func(context.Context, *corev1.Namespace) (controller.Result, error)) error {
	// most methods of the builder
	events := m.Events("example.com/greeter") // their recorder; the manager runs it
	secrets := manager.Client[*corev1.Secret](m)
	err := manager.ControllerFor[*corev1.Namespace](m).
		Named("greeter").
		With(controller.Options{Concurrency: 4}). // logger, metrics and resync interval come from the manager
		In(manager.Others).                       // on every replica
		Owns(maps).
		Reads(secrets). // waits for their cache
		Watches(controller.MapFunc(nodes, everyNamespace)).
		Complete(greet)

	// without a manager
	namespaces := controller.ClientFor[*corev1.Namespace](f)
	c, err := controller.New("greeter", controller.Objects(namespaces, greet), controller.Options{Logger: slog.Default()})
	c.Watch(controller.For(namespaces, controller.LabelsChanged[*corev1.Namespace]()))
	c.Watch(controller.Owns(maps, namespaces))
	c.Watch(controller.Awaited(secrets))
	f.Start(ctx)
	err = c.Run(ctx) // c.Ready() says which source it waits for, and why
	_ = events
	return err
}

func differing(ctx context.Context, maps *controller.Client[*corev1.ConfigMap], ns *corev1.Namespace) error {
	// write only if something differs from the cache
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "greeting"}}
	m, did, err := controller.CreateOrUpdate(ctx, maps.OwnedBy(ns), m, func(m *corev1.ConfigMap) error {
		m.Data = map[string]string{"text": "hello " + ns.Labels["greet"]}
		return nil
	})

	// send the changes to an object, which may come from the cache
	m, err = controller.Patch(ctx, maps, m, func(m *corev1.ConfigMap) error {
		m.Labels = map[string]string{"greeted": "yes"}
		return nil
	})
	_, _ = m, did
	return err
}

func conditioning(ctx context.Context, budgets *controller.Client[*policyv1.PodDisruptionBudget], b *policyv1.PodDisruptionBudget, key object.Key) (err error) {
	// set a condition; one that did not change keeps its transition time, so nothing is sent
	_, err = controller.SetCondition(ctx, budgets, b, metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Computed"})

	// or with other changes of the status, in one request
	_, err = controller.PatchStatus(ctx, budgets, b, func(b *policyv1.PodDisruptionBudget) error {
		b.Status.ObservedGeneration = b.Generation
		meta.SetStatusCondition(&b.Status.Conditions, metav1.Condition{
			Type: "Ready", Status: metav1.ConditionTrue, Reason: "Computed", ObservedGeneration: b.Generation,
		})
		return nil
	})

	// wait for one, outside of a reconcile; the error has the last state of the object and the reason
	b, err = budgets.WaitFor(ctx, key, func(b *policyv1.PodDisruptionBudget) bool {
		return meta.IsStatusConditionTrue(b.Status.Conditions, "Ready")
	})
	return err
}

func subresources(ctx context.Context, deployments *controller.Client[*appsv1.Deployment], pods *controller.Client[*corev1.Pod], key object.Key) error {
	// scale anything that has the subresource; the next reconcile sees the write
	scales := controller.SubresourceFor[*autoscalingv1.Scale](deployments, "scale")
	scale, err := scales.Read(ctx, key)
	_, err = controller.Patch(ctx, scales, scale, func(s *autoscalingv1.Scale) error {
		s.Spec.Replicas = 3
		return nil
	})

	// evict a Pod: apierrors.IsTooManyRequests says that a disruption budget forbids it for now
	evictions := controller.SubresourceFor[*policyv1.Eviction](pods, "eviction")
	_, err = evictions.Create(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}})

	// follow a log until ctx ends
	log, err := pods.Resource().Subresource("log").Stream(ctx, key, &corev1.PodLogOptions{Follow: true})
	if err != nil {
		return err
	}
	defer log.Close()
	_, err = io.Copy(os.Stdout, log)
	return err
}

func managing(cfg *config.Config, reconciler controller.Reconciler, r manager.Runnable) error {
	m, err := manager.New(cfg, manager.Options{
		Logger:                 slog.Default(),                           // by default nothing is logged
		LeaderElection:         &leaderelection.Options{Name: "janitor"}, // one replica works, the others keep their caches warm
		MetricsBindAddress:     ":8443",
		MetricsTLS:             &serving.TLS{},
		MetricsAccess:          true,    // the API server authorizes readers
		HealthProbeBindAddress: ":8081", // /healthz, /readyz?verbose
		PprofBindAddress:       ":6060", // loopback; /debug/status and /debug/millrace/ show informers, controllers, election
	})
	// a controller with the manager's logger and metrics
	c, err := manager.ControllerFor[*corev1.Pod](m).Named("janitor").Build(reconciler)
	err = m.Add(r)                       // anything with Run(ctx) error
	err = m.Run(manager.SignalContext()) // a second signal ends the process at once
	_ = c
	return err
}

func electing(ctx context.Context, m *manager.Manager, r manager.Runnable) error {
	// run on every replica; a method NeedLeaderElection that returns false does the same
	err := m.AddTo(manager.Others, r)

	// in work that only the leader does: a fencing token that grows with each term
	token, ok := leaderelection.Token(ctx)

	// a probe of your own
	err = m.AddReadyzCheck("disk", func(*http.Request) error { return nil })
	_, _ = token, ok
	return err
}

func dividing(ctx context.Context, cfg *config.Config, reconcile func(context.Context, *appsv1.Deployment) (controller.Result, error)) error {
	m, err := manager.New(cfg, manager.Options{Sharding: &membership.Options{Name: "janitor"}}) // one Lease per replica
	own := factory.For[*appsv1.Deployment]{Scope: factory.Scope{Shard: m.Shard(shard.ByUID())}}
	maps := controller.ClientWith(m.Factory(), factory.For[*corev1.ConfigMap]{Scope: factory.Scope{Shard: m.Shard(shard.ByOwner())}})
	err = manager.ControllerWith(m, own).Owns(maps).Complete(reconcile)
	token, ok := shard.TokenOf(ctx) // in a reconcile: a fencing token; later owners of the slot have a greater epoch
	_, _ = token, ok
	return err
}

func clusters(cfg, other *config.Config) error {
	// some namespaces, changed at run time
	m, err := manager.New(cfg, manager.Options{Namespaces: []string{"shop", "bank"}})
	err = m.SetNamespaces([]string{"shop", "mail"})

	// a second cluster
	far, err := manager.NewCluster(other, manager.ClusterOptions{Name: "far"})
	err = m.Add(far)

	// one field manager for all writes; set it before manager.New
	cfg.FieldManager = "janitor"
	return err
}

func caching(ctx context.Context, cfg *config.Config, key object.Key, secrets object.GVK) error {
	// kinds that are not cached: their clients start no informer, and Read asks the server
	m, err := manager.New(cfg, manager.Options{Factory: factory.Options{DisableFor: []object.GVK{secrets}}})
	client := manager.Client[*corev1.Secret](m)
	secret, err := client.Read(ctx, key)

	// how often every object is reconciled without a change, unless a predicate drops that; ten hours by default
	m, err = manager.New(cfg, manager.Options{SyncPeriod: time.Hour})

	// objects in CBOR, set before manager.New: smaller than JSON, but slower to decode, and equal parts are not shared
	cfg.CBOR = true
	_, _ = m, secret
	return err
}

func measuring(m *manager.Manager, cfg *config.Config, c prometheus.Collector, name string, f *factory.Factory) error {
	// your own metrics
	m.Metrics().Register(c)

	// requests of a client that the manager did not make
	cfg.WrapTransport = m.Metrics().Requests

	// informers of another factory in /metrics, /readyz and /debug/status
	err := m.AddInformers("other", f)
	return err
}

func admitting(m *manager.Manager) error {
	// the webhooks of a kind, at kubebuilder's paths; the certificate is in manager.Options.Webhooks.CertDir
	err := manager.WebhookFor[*corev1.Pod](m).
		Validate(func(ctx context.Context, r *webhook.Request[*corev1.Pod]) error {
			if r.Object != nil && r.Object.Labels["owner"] == "" { // Object is nil for a deletion
				return errors.New("every pod needs a label owner")
			}
			return nil
		}).
		Complete()

	// of several kinds, by their metadata; reviews of other kinds are refused
	err = manager.WebhookFor[*metav1.PartialObjectMetadata](m,
		corev1.SchemeGroupVersion.WithKind("Secret"), corev1.SchemeGroupVersion.WithKind("ConfigMap")).
		Default(func(ctx context.Context, r *webhook.Request[*metav1.PartialObjectMetadata]) error {
			metav1.SetMetaDataAnnotation(&r.Object.ObjectMeta, "example.com/written-by", r.UserInfo.Username)
			return nil
		}).
		Complete()

	// versions of a custom resource, on the same server
	hooks, err := m.WebhookServer()
	c := webhook.NewConversion[*v2Gadget](schema.GroupVersion{Group: "example.com", Version: "v2"}, "Gadget")
	webhook.Spoke(c, schema.GroupVersion{Group: "example.com", Version: "v1"}, up, down)
	hooks.Handle("/convert", c)

	// without a manager; without certificate files, on one machine, put SelfSigned into the caBundle
	hooks, err = webhook.New(webhook.Options{TLS: &serving.TLS{}})
	hooks.Handle("/validate-gadget", webhook.Validate(validate, schema.GroupVersionKind{Group: "example.com", Version: "v2", Kind: "Gadget"}))
	bundle := hooks.SelfSigned()
	_ = bundle
	return err
}

func testingOne(t *testing.T, addControllers func(*manager.Manager) error) {
	controllertest.Run(t, func(e *controllertest.Env) {
		m := e.Manager(manager.Options{})
		if err := addControllers(m); err != nil {
			e.Fatal(err)
		}
		e.Start(m)
		controllertest.Put(e, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
		greeting := controllertest.Get[*corev1.ConfigMap](e, object.Key{Namespace: "shop", Name: "greeting"})
		if greeting.Data["text"] == "" {
			e.Error("it says nothing")
		}
		e.Settle(time.Hour) // an hour passes at once
	})
}

func failing(e *controllertest.Env) {
	e.Server.Faults().Add(apiservertest.Fault{Verb: "update", Count: 3, Do: []apiservertest.Action{apiservertest.Fail{Code: http.StatusConflict}}})
}

type (
	v1Gadget struct{ corev1.ConfigMap }
	v2Gadget struct{ corev1.ConfigMap }
)

func validate(ctx context.Context, r *webhook.Request[*v2Gadget]) error { return nil }

func up(ctx context.Context, in *v1Gadget, out *v2Gadget) error   { return nil }
func down(ctx context.Context, in *v2Gadget, out *v1Gadget) error { return nil }

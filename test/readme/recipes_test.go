package readme

//lint:file-ignore SA4006 what a recipe returns is for its reader

import (
	"context"
	"crypto/tls"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/serving"
	"github.com/millrace-dev/millrace/webhook"
)

// More blocks of docs/cookbook.md, and the second of docs/porting.md: see cookbook_test.go.
var _ = []any{referring, finalizing, mirroring, securing, addGreeter}

func referring(m *manager.Manager) error {
	// reconcile an Ingress when a Secret that it names changes
	ingresses := manager.Client[*networkingv1.Ingress](m)
	secrets := manager.Client[*corev1.Secret](m)
	bySecret := controller.AddIndex(ingresses, "secret", func(i *networkingv1.Ingress) (keys []object.Key) {
		for _, tls := range i.Spec.TLS {
			keys = append(keys, object.Key{Namespace: i.Namespace, Name: tls.SecretName})
		}
		return keys
	})
	named := controller.MapByIndex(secrets, bySecret, func(s *corev1.Secret) object.Key { return object.KeyOf(s) })
	err := manager.ControllerFor[*networkingv1.Ingress](m).Watches(named).
		Complete(func(ctx context.Context, i *networkingv1.Ingress) (controller.Result, error) {
			for _, tls := range i.Spec.TLS {
				if _, exists := secrets.Get(object.Key{Namespace: i.Namespace, Name: tls.SecretName}); !exists {
					controller.Logger(ctx).Warn("the Secret does not exist", "secret", tls.SecretName)
				}
			}
			return controller.Result{}, nil // a Secret that is created with that name calls this again
		})
	return err
}

func finalizing(m *manager.Manager, createBucket, deleteBucket func(ctx context.Context, name string) error) error {
	// keep a deleted object until its bucket outside of the cluster is deleted too
	claims := manager.Client[*corev1.PersistentVolumeClaim](m)
	cleanUp := func(ctx context.Context, c *corev1.PersistentVolumeClaim) (done bool, err error) {
		return true, deleteBucket(ctx, c.Name) // an error is retried; it may be called again after it has succeeded
	}
	err := manager.ControllerFor[*corev1.PersistentVolumeClaim](m).
		Complete(func(ctx context.Context, c *corev1.PersistentVolumeClaim) (controller.Result, error) {
			c, err := claims.Finalize(ctx, c, "example.com/bucket", cleanUp)
			if err != nil || c.DeletionTimestamp != nil {
				return controller.Result{}, err
			}
			return controller.Result{}, createBucket(ctx, c.Name)
		})
	return err
}

func mirroring(m *manager.Manager, far *config.Config) error {
	// copy labelled ConfigMaps to another cluster, and delete copies whose original is gone
	other, err := manager.NewCluster(far, manager.ClusterOptions{Name: "far"})
	err = m.Add(other)
	here := manager.Client[*corev1.ConfigMap](m)
	there := controller.ClientFor[*corev1.ConfigMap](other.Factory())
	mirror := func(ctx context.Context, req controller.Request) (controller.Result, error) {
		from, err := here.Read(ctx, req.Key)
		if err != nil && !apierrors.IsNotFound(err) {
			return controller.Result{}, err // unlike Get, Read fails if here no longer watches the namespace
		}
		if err == nil && from.Labels["mirror"] != "" {
			to := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: req.Name}}
			_, _, err := controller.CreateOrUpdate(ctx, there, to, func(to *corev1.ConfigMap) error {
				to.Labels, to.Data = map[string]string{"mirrored": "yes"}, from.Data
				return nil
			})
			return controller.Result{}, err
		}
		if to, exists := there.Get(req.Key); exists && to.Labels["mirrored"] != "" {
			return controller.Result{}, there.Delete(ctx, to)
		}
		return controller.Result{}, nil
	}
	// a change in either cluster makes a request with that name
	_, err = manager.ControllerFor[*corev1.ConfigMap](m).Named("mirror").
		Watches(controller.For(there.Informer())).
		Build(controller.Func(mirror))
	return err
}

func securing(cfg *config.Config) error {
	// verify the API server under another name, by your own certificate authority
	cfg.TLS.ServerName, cfg.TLS.CAFile = "api.internal", "/etc/api/ca.crt"

	// serve metrics and webhooks by TLS 1.3, to clients with a certificate from this authority
	secure := &serving.TLS{CertFile: "/certs/tls.crt", KeyFile: "/certs/tls.key", ClientCAFile: "/certs/ca.crt", MinVersion: tls.VersionTLS13}
	m, err := manager.New(cfg, manager.Options{MetricsBindAddress: ":8443", MetricsTLS: secure, Webhooks: webhook.Options{TLS: secure}})
	_ = m
	return err
}

type Greeter struct {
	maps *controller.Client[*corev1.ConfigMap]
}

func (g *Greeter) reconcile(ctx context.Context, ns *corev1.Namespace) (controller.Result, error) {
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "greeting"}}
	_, _, err := controller.CreateOrUpdate(ctx, g.maps.OwnedBy(ns), m, func(m *corev1.ConfigMap) error {
		m.Data = map[string]string{"text": "hello " + ns.Labels["greet"]}
		return nil
	})
	return controller.Result{RequeueAfter: time.Hour}, err
}

func addGreeter(m *manager.Manager) error {
	g := &Greeter{manager.Client[*corev1.ConfigMap](m)}
	return manager.ControllerFor(m, controller.LabelsChanged[*corev1.Namespace]()).
		Owns(g.maps).
		Complete(g.reconcile)
}

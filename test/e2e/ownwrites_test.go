package e2e

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
)

// late delivers each piece of a watch one second late.
type late struct{ http.RoundTripper }

func (l late) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := l.RoundTripper.RoundTrip(r)
	if err == nil && r.URL.Query().Has("watch") {
		resp.Body = lateBody{resp.Body}
	}
	return resp, err
}

type lateBody struct{ io.ReadCloser }

func (b lateBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	time.Sleep(time.Second)
	return n, err
}

// ownWorld is the environment of a test of own writes.
type ownWorld struct {
	ns          string
	maps        *controller.Client[*corev1.ConfigMap]
	pods        *controller.Client[*corev1.Pod]
	deployments *controller.Client[*appsv1.Deployment]
}

// holds reports whether the cache has a ConfigMap of this name for which is returns true.
func (w *ownWorld) holds(name string, is func(*corev1.ConfigMap) bool) bool {
	m, ok := w.maps.Get(object.Key{Namespace: w.ns, Name: name})
	return ok && is(m)
}

func (w *ownWorld) lacks(name string) bool {
	return !w.holds(name, func(*corev1.ConfigMap) bool { return true })
}

func (w *ownWorld) configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: name}}
}

func (w *ownWorld) pod() *corev1.Pod {
	p, _ := w.pods.Get(object.Key{Namespace: w.ns, Name: "pod"})
	return p
}

const hold = "example.com/hold"

// A reconcile sees the writes of the previous one on a real server, even if its watch is late. The
// rows are those of docs/own-writes.md; package controller tests more of each.
func TestO01_OwnWritesAreSeen(t *testing.T) {
	write := func(m *corev1.ConfigMap) *corev1.ConfigMap { m.Data = map[string]string{"a": "written"}; return m }
	written := func(m *corev1.ConfigMap) bool { return m.Data["a"] == "written" }
	deleting := func(m *corev1.ConfigMap) bool { return m.DeletionTimestamp != nil }
	for name, form := range map[string]struct {
		write func(ctx context.Context, w *ownWorld) error
		seen  func(w *ownWorld) bool
	}{
		"create": {func(ctx context.Context, w *ownWorld) error {
			_, err := w.maps.Create(ctx, w.configMap("new"))
			return err
		}, func(w *ownWorld) bool { return !w.lacks("new") }},
		"update": {func(ctx context.Context, w *ownWorld) error {
			m, _ := w.maps.Copy(object.KeyOf(w.configMap("old")))
			_, err := w.maps.Update(ctx, write(m))
			return err
		}, func(w *ownWorld) bool { return w.holds("old", written) }},
		"patch": {func(ctx context.Context, w *ownWorld) error {
			_, err := w.maps.Patch(ctx, object.KeyOf(w.configMap("old")), types.MergePatchType, []byte(`{"data":{"a":"written"}}`))
			return err
		}, func(w *ownWorld) bool { return w.holds("old", written) }},
		"apply": {func(ctx context.Context, w *ownWorld) error {
			m := write(w.configMap("old"))
			m.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}
			_, err := w.maps.Apply(ctx, m, "test")
			return err
		}, func(w *ownWorld) bool { return w.holds("old", written) }},
		"status": {func(ctx context.Context, w *ownWorld) error {
			_, err := controller.PatchStatus(ctx, w.pods, w.pod(), func(p *corev1.Pod) error { p.Status.Message = "written"; return nil })
			return err
		}, func(w *ownWorld) bool { return w.pod().Status.Message == "written" }},
		"last finalizer": {func(ctx context.Context, w *ownWorld) error {
			m, _ := w.maps.Get(object.KeyOf(w.configMap("going")))
			_, err := controller.Patch(ctx, w.maps, m, func(m *corev1.ConfigMap) error { controller.RemoveFinalizer(m, hold); return nil })
			return err
		}, func(w *ownWorld) bool { return w.lacks("going") }},
		"delete": {func(ctx context.Context, w *ownWorld) error {
			m, _ := w.maps.Get(object.KeyOf(w.configMap("old")))
			return w.maps.Delete(ctx, m)
		}, func(w *ownWorld) bool { return w.lacks("old") }},
		"delete by name": {func(ctx context.Context, w *ownWorld) error {
			return w.maps.Delete(ctx, w.configMap("old"))
		}, func(w *ownWorld) bool { return w.lacks("old") }},
		"delete with a finalizer": {func(ctx context.Context, w *ownWorld) error {
			return w.maps.Delete(ctx, w.configMap("held"))
		}, func(w *ownWorld) bool { return w.holds("held", deleting) }},
		"delete by name and create": {func(ctx context.Context, w *ownWorld) error {
			if err := w.maps.Delete(ctx, w.configMap("old")); err != nil {
				return err
			}
			_, err := w.maps.Create(ctx, write(w.configMap("old")))
			return err
		}, func(w *ownWorld) bool { return w.holds("old", written) }},
		"eviction": {func(ctx context.Context, w *ownWorld) error {
			evictions := controller.SubresourceFor[*policyv1.Eviction](w.pods, "eviction")
			_, err := evictions.Create(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "pod"}})
			return err
		}, func(w *ownWorld) bool { return w.pod() == nil || w.pod().DeletionTimestamp != nil }},
		"scale": {func(ctx context.Context, w *ownWorld) error {
			scales := controller.SubresourceFor[*autoscalingv1.Scale](w.deployments, "scale")
			_, err := scales.Patch(ctx, object.Key{Namespace: w.ns, Name: "web"}, types.MergePatchType, []byte(`{"spec":{"replicas":3}}`))
			return err
		}, func(w *ownWorld) bool {
			d, _ := w.deployments.Get(object.Key{Namespace: w.ns, Name: "web"})
			return *d.Spec.Replicas == 3
		}},
	} {
		t.Run(name, func(t *testing.T) {
			client, ns := admin(t)
			prepareOwnWorld(t, client, ns)
			cfg := loadConfig(t, shared, "admin")
			cfg.WrapTransport = func(next http.RoundTripper) http.RoundTripper { return late{next} }
			f := factory.New(newClient(t, cfg), factory.Options{Scope: factory.Scope{Namespaces: []string{ns}}})
			w := &ownWorld{ns, controller.ClientFor[*corev1.ConfigMap](f), controller.ClientFor[*corev1.Pod](f), controller.ClientFor[*appsv1.Deployment](f)}
			ctx, cancel := context.WithCancel(t.Context())
			ring, done := make(chan string, 1), make(chan bool, 1)
			first := true
			c, err := controller.New("own", controller.Func(func(ctx context.Context, _ controller.Request) (controller.Result, error) {
				if first {
					first = false
					return controller.Result{Requeue: true}, form.write(ctx, w)
				}
				done <- form.seen(w)
				return controller.Result{}, nil
			}), controller.Options{Patience: 2 * time.Minute})
			require.NoError(t, err)
			c.Watch(controller.Channel("bell", ring, func(context.Context, string) ([]controller.Request, error) {
				return []controller.Request{{Key: object.Key{Name: "all"}}}, nil
			}))
			for _, client := range []controller.Watchable{w.maps, w.pods, w.deployments} {
				c.Watch(controller.Awaited(client))
			}
			f.Start(ctx)
			ended := make(chan error, 1)
			go func() { ended <- c.Run(ctx) }()
			ring <- "ring"
			require.True(t, <-done, "the reconcile after the write does not see it")
			require.Zero(t, c.Status().Stale)
			cancel()
			require.NoError(t, <-ended)
			f.Wait()
		})
	}
}

// prepareOwnWorld creates the objects that exist before the write.
func prepareOwnWorld(t *testing.T, client *rest.Client, ns string) {
	ctx := t.Context()
	maps := rest.ResourceFor[*corev1.ConfigMap](client).Namespace(ns)
	for name, finalizers := range map[string][]string{"old": nil, "held": {hold}, "going": {hold}} {
		_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: finalizers}}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	require.NoError(t, maps.Delete(ctx, object.Key{Name: "going"}, metav1.DeleteOptions{}))
	template := corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}
	_, err := rest.ResourceFor[*corev1.Pod](client).Namespace(ns).Create(ctx,
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod"}, Spec: template}, metav1.CreateOptions{})
	require.NoError(t, err)
	labels := map[string]string{"app": "web"}
	_, err = rest.ResourceFor[*appsv1.Deployment](client).Namespace(ns).Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: template}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

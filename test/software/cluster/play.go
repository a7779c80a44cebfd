package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
)

// The numbers of permanent namespaces and of namespaces that are deleted along with their content.
const (
	shops   = 38
	markets = 10
)

// Play creates about 2,000 objects, waits for the controllers, changes and deletes some objects, and waits
// again.
func (c *Cluster) Play(ctx context.Context) error {
	for _, act := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"create objects", c.make},
		{"wait for the controllers", func(ctx context.Context) error { return until(ctx, c.running) }},
		{"change and delete", c.change},
		{"wait for the controllers again", func(ctx context.Context) error {
			return until(ctx, func(ctx context.Context) error { return errors.Join(c.running(ctx), c.gone(ctx)) })
		}},
		{"wait for quiet", c.settle},
	} {
		if err := act.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", act.name, err)
		}
	}
	return nil
}

// Ready waits until no Node is tainted, which shows that the controllers are working.
func (c *Cluster) Ready(ctx context.Context) error {
	return until(ctx, func(ctx context.Context) error {
		return each(ctx, rest.ResourceFor[*corev1.Node](c.client), func(n *corev1.Node) error {
			if len(n.Spec.Taints) > 0 {
				return fmt.Errorf("%s has taints: %v", n.Name, n.Spec.Taints)
			}
			return nil
		})
	})
}

// make creates all objects.
func (c *Cluster) make(ctx context.Context) error {
	for n := range shops {
		if err := c.open(ctx, shop(n)); err != nil {
			return err
		}
	}
	for n := range markets {
		if err := c.build(ctx, market(n)); err != nil {
			return err
		}
	}
	return create(ctx, c, daemonSet(shop(0), "agent"))
}

func shop(n int) string   { return fmt.Sprint("shop-", n) }
func market(n int) string { return fmt.Sprint("market-", n) }

// open creates a permanent namespace.
func (c *Cluster) open(ctx context.Context, ns string) error {
	if err := create(ctx, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}); err != nil {
		return err
	}
	errs := []error{create(ctx, c, quota(ns))}
	for n := range 4 {
		errs = append(errs, create(ctx, c, deployment(ns, fmt.Sprint("web-", n), 4)))
	}
	for n := range 2 {
		errs = append(errs, create(ctx, c, service(ns, fmt.Sprint("web-", n))), create(ctx, c, job(ns, fmt.Sprint("job-", n), 4)))
	}
	errs = append(errs, create(ctx, c, budget(ns, "web-0")), create(ctx, c, statefulSet(ns, "db", 3)))
	return errors.Join(append(errs, c.chain(ctx, ns))...)
}

// chain creates a tree of ConfigMaps: the root owns five, each of which owns two.
func (c *Cluster) chain(ctx context.Context, ns string) error {
	root, err := created(ctx, c, &corev1.ConfigMap{ObjectMeta: meta(ns, "root")})
	if err != nil {
		return err
	}
	for n := range 5 {
		middle, err := created(ctx, c, owned(root, n))
		if err != nil {
			return err
		}
		for k := range 2 {
			if err := create(ctx, c, owned(middle, k)); err != nil {
				return err
			}
		}
	}
	return nil
}

// build creates a namespace that will be deleted later.
func (c *Cluster) build(ctx context.Context, ns string) error {
	if err := create(ctx, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}); err != nil {
		return err
	}
	errs := []error{create(ctx, c, service(ns, "stand-0")), create(ctx, c, job(ns, "clean", 2))}
	for n := range 2 {
		errs = append(errs, create(ctx, c, deployment(ns, fmt.Sprint("stand-", n), 3)))
	}
	for n := range 10 {
		errs = append(errs, create(ctx, c, &corev1.ConfigMap{ObjectMeta: meta(ns, fmt.Sprint("prices-", n))}))
	}
	return errors.Join(errs...)
}

// change performs rollouts, and scales and deletes objects.
func (c *Cluster) change(ctx context.Context) error {
	for n := range markets {
		if err := remove[*corev1.Namespace](ctx, c, "", market(n), metav1.DeletePropagationBackground); err != nil {
			return err
		}
	}
	for n := range shops {
		ns, cascade := shop(n), metav1.DeletePropagationBackground
		if n%2 == 0 {
			cascade = metav1.DeletePropagationForeground
		}
		image := map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
			"containers": []any{map[string]any{"name": "server", "image": "example.com/server:2"}},
		}}}}
		err := errors.Join(
			patch[*appsv1.Deployment](ctx, c, ns, "web-0", image),
			patch[*appsv1.Deployment](ctx, c, ns, "web-1", map[string]any{"spec": map[string]any{"replicas": 6}}),
			patch[*appsv1.StatefulSet](ctx, c, ns, "db", map[string]any{"spec": map[string]any{"replicas": 2}}),
			remove[*appsv1.Deployment](ctx, c, ns, "web-2", cascade),
			remove[*appsv1.Deployment](ctx, c, ns, "web-3", metav1.DeletePropagationOrphan),
			remove[*batchv1.Job](ctx, c, ns, "job-0", cascade),
			remove[*corev1.ConfigMap](ctx, c, ns, "root", cascade),
		)
		if err != nil {
			return err
		}
	}
	return nil
}

// create creates an object.
func create[T object.Object](ctx context.Context, c *Cluster, o T) error {
	_, err := created(ctx, c, o)
	return err
}

// created creates an object and returns it. It retries conflicts, which are caused by other clients writing
// the namespace's quota.
func created[T object.Object](ctx context.Context, c *Cluster, o T) (made T, err error) {
	for range 20 {
		made, err = rest.ResourceFor[T](c.client).Create(ctx, o, metav1.CreateOptions{})
		if !apierrors.IsConflict(err) {
			break
		}
	}
	return made, err
}

// remove deletes an object and its dependents.
func remove[T object.Object](ctx context.Context, c *Cluster, namespace, name string, how metav1.DeletionPropagation) error {
	return rest.ResourceFor[T](c.client).Delete(ctx, object.Key{Namespace: namespace, Name: name}, metav1.DeleteOptions{PropagationPolicy: &how})
}

// patch merges fields into an object.
func patch[T object.Object](ctx context.Context, c *Cluster, namespace, name string, fields map[string]any) error {
	text, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	_, err = rest.ResourceFor[T](c.client).Patch(ctx, object.Key{Namespace: namespace, Name: name}, types.StrategicMergePatchType, text, metav1.PatchOptions{})
	return err
}

// each calls f for every object of a kind and joins the errors.
func each[T object.Object](ctx context.Context, all *rest.Resource[T], f func(T) error) error {
	var errs []error
	for o, err := range all.List(ctx, metav1.ListOptions{}).Items {
		if err != nil {
			return err
		}
		errs = append(errs, f(o))
	}
	return errors.Join(errs...)
}

// gone returns an error as long as a deleted object still exists.
func (c *Cluster) gone(ctx context.Context) error {
	var errs []error
	for n := range markets {
		key := object.Key{Name: market(n)}
		_, err := rest.ResourceFor[*corev1.Namespace](c.client).Get(ctx, key, metav1.GetOptions{})
		errs = append(errs, missing(key, err))
	}
	for n := range shops {
		for _, name := range []string{"root", "root-0", "root-4-1"} {
			key := object.Key{Namespace: shop(n), Name: name}
			_, err := rest.ResourceFor[*corev1.ConfigMap](c.client).Get(ctx, key, metav1.GetOptions{})
			errs = append(errs, missing(key, err))
		}
	}
	return errors.Join(append(errs, each(ctx, rest.ResourceFor[*corev1.Pod](c.client), func(p *corev1.Pod) error {
		if app := p.Labels["app"]; app == "web-2" || app == "job-0" || p.DeletionTimestamp != nil {
			return fmt.Errorf("pod %s still exists", object.KeyOf(p))
		}
		return nil
	}))...)
}

// missing returns nil if err is a not-found error.
func missing(key object.Key, err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return errors.Join(fmt.Errorf("%s still exists", key), err)
}

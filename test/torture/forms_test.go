package torture

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// plain is how most informers read.
func plain[T object.Object](c *rest.Client) source.ListerWatcher[T] { return rest.ResourceFor[T](c) }

func ofKind[T object.Object](kind object.GVK) func(*rest.Client) source.ListerWatcher[T] {
	return func(c *rest.Client) source.ListerWatcher[T] { return rest.ResourceForKind[T](c, kind) }
}

// followAll makes an informer of each form.
func (w *world) followAll() {
	follow(w, "typed protobuf", "front", sharedinformer.Options{}, plain[*corev1.Pod])
	follow(w, "listed and compacted", "certs", sharedinformer.Options{Initial: reflector.List, Compact: true}, plain[*corev1.Pod])
	follow(w, "typed JSON", "front", sharedinformer.Options{}, ofKind[*Gadget](gadgetKind))
	follow(w, "unstructured", "certs", sharedinformer.Options{}, ofKind[*unstructured.Unstructured](gadgetKind))
	follow(w, "paged unstructured", "front", sharedinformer.Options{PageSize: 7}, ofKind[*unstructured.Unstructured](corev1.SchemeGroupVersion.WithKind("Secret")))
	follow(w, "metadata of", "front", sharedinformer.Options{}, ofKind[*metav1.PartialObjectMetadata](corev1.SchemeGroupVersion.WithKind("ConfigMap")))
	follow(w, "several namespaces of", "front", sharedinformer.Options{Namespaces: slices.Clone(w.namespaces[:2])}, plain[*corev1.ConfigMap])
	follow(w, "selected", "certs", sharedinformer.Options{LabelSelector: labels.SelectorFromSet(labels.Set{"app": "app-1"})}, plain[*corev1.Pod])
	follow(w, "projected", "front", sharedinformer.Options{}, func(c *rest.Client) source.ListerWatcher[*corev1.Pod] {
		return rest.ResourceFor[*corev1.Pod](c).Keep(wire.Only("metadata.labels"))
	})
	follow(w, "transformed", "certs", sharedinformer.Options{}, func(c *rest.Client) source.ListerWatcher[*corev1.Secret] {
		return reflector.Transformed(rest.ResourceFor[*corev1.Secret](c), func(s *corev1.Secret) (*corev1.Secret, error) {
			s.ManagedFields = nil
			return s, nil
		})
	})
	follow(w, "shared parts of", "front", sharedinformer.Options{}, func(c *rest.Client) source.ListerWatcher[*corev1.ConfigMap] {
		return rest.ResourceFor[*corev1.ConfigMap](c).Sharing(wire.NewPool())
	})
	f := factory.New(w.clients["front"], factory.Options{Timing: reflector.Timing{Backoff: brisk}})
	ctx, stop := w.lasting()
	fromFactory[*corev1.Secret](w, f)
	fromFactory[*corev1.Namespace](w, f)
	f.Start(ctx)
	w.stopAll = append(w.stopAll, f.Wait, stop) // from the last to the first
}

// fromFactory follows an informer that a factory runs.
func fromFactory[T object.Object](w *world, in *factory.Factory) {
	f := &follower[T]{w: w, form: "factory's", by: "front", truth: plain[T](w.direct[0]), halt: func() {}, foreign: true}
	f.attach(factory.Informer[T](in))
	w.subjects = append(w.subjects, f)
}

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

// plain returns the source that most informers use.
func plain[T object.Object](c *rest.Client) source.ListerWatcher {
	return rest.ResourceFor[T](c).Source()
}

func ofKind[T object.Object](kind object.GVK) func(*rest.Client) source.ListerWatcher {
	return func(c *rest.Client) source.ListerWatcher { return rest.ResourceForKind[T](c, kind).Source() }
}

// followAll creates an informer of each form.
func (w *world) followAll() {
	follow[*corev1.Pod](w, "typed protobuf", "front", sharedinformer.Options{}, plain[*corev1.Pod])
	follow[*corev1.Pod](w, "listed and compacted", "certs", sharedinformer.Options{Initial: reflector.List, Compact: true}, plain[*corev1.Pod])
	follow[*Gadget](w, "typed JSON", "front", sharedinformer.Options{}, ofKind[*Gadget](gadgetKind))
	follow[*unstructured.Unstructured](w, "unstructured", "certs", sharedinformer.Options{}, ofKind[*unstructured.Unstructured](gadgetKind))
	follow[*unstructured.Unstructured](w, "paged unstructured", "front", sharedinformer.Options{PageSize: 7}, ofKind[*unstructured.Unstructured](corev1.SchemeGroupVersion.WithKind("Secret")))
	follow[*metav1.PartialObjectMetadata](w, "metadata of", "front", sharedinformer.Options{}, ofKind[*metav1.PartialObjectMetadata](corev1.SchemeGroupVersion.WithKind("ConfigMap")))
	follow[*corev1.ConfigMap](w, "several namespaces of", "front", sharedinformer.Options{Namespaces: slices.Clone(w.namespaces[:2])}, plain[*corev1.ConfigMap])
	follow[*corev1.Pod](w, "selected", "certs", sharedinformer.Options{LabelSelector: labels.SelectorFromSet(labels.Set{"app": "app-1"})}, plain[*corev1.Pod])
	follow[*corev1.Pod](w, "projected", "front", sharedinformer.Options{}, func(c *rest.Client) source.ListerWatcher {
		return rest.ResourceFor[*corev1.Pod](c).Keep(wire.Only("metadata.labels")).Source()
	})
	follow[*corev1.Secret](w, "transformed", "certs", sharedinformer.Options{}, func(c *rest.Client) source.ListerWatcher {
		return reflector.Transformed(rest.ResourceFor[*corev1.Secret](c).Source(), func(s *corev1.Secret) (*corev1.Secret, error) {
			s.ManagedFields = nil
			return s, nil
		})
	})
	follow[*corev1.ConfigMap](w, "shared parts of", "front", sharedinformer.Options{}, func(c *rest.Client) source.ListerWatcher {
		return rest.ResourceFor[*corev1.ConfigMap](c).Sharing(wire.NewPool()).Source()
	})
	f := factory.New(w.clients["front"], factory.Options{Timing: reflector.Timing{Backoff: brisk}})
	ctx, stop := w.lasting()
	fromFactory[*corev1.Secret](w, f)
	fromFactory[*corev1.Namespace](w, f)
	f.Start(ctx)
	w.stopAll = append(w.stopAll, f.Wait, stop) // called in reverse order
}

// fromFactory follows an informer that a factory runs.
func fromFactory[T object.Object](w *world, in *factory.Factory) {
	f := &follower[T]{w: w, form: "factory's", by: "front", truth: plain[T](w.direct[0]), halt: func() {}, foreign: true}
	f.attach(factory.Informer[T](in))
	w.subjects = append(w.subjects, f)
}

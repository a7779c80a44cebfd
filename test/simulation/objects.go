package simulation

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace-dev/millrace/object"
)

var (
	podGVR       = object.GVR{Version: "v1", Resource: "pods"}
	configMapGVR = object.GVR{Version: "v1", Resource: "configmaps"}
	leaseGVR     = object.GVR{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
	podKind      = object.GVK{Version: "v1", Kind: "Pod"}

	namespaces = []string{"east", "north", "west"}
	even       = labels.SelectorFromSet(labels.Set{"half": "even"})
)

// names is the number of distinct object names.
const names = 30

func keyOf(who int) object.Key {
	who = (who%names + names) % names
	return object.Key{Namespace: namespaces[who%len(namespaces)], Name: fmt.Sprint("o", who)}
}

// allOfThem selects all namespaces with a single feed.
const allOfThem = 8

// namespacesOf returns the namespaces with set bits.
func namespacesOf(bits int) []string {
	if bits == allOfThem {
		return []string{metav1.NamespaceAll}
	}
	some := []string{}
	for i, ns := range namespaces {
		if bits&(1<<i) != 0 {
			some = append(some, ns)
		}
	}
	return some
}

// contentLabels returns labels that identify an object's content.
func contentLabels(content int) map[string]string {
	half := "even"
	if content%2 != 0 {
		half = "odd"
	}
	return map[string]string{"half": half, "content": fmt.Sprint(content)}
}

// All fields of an object are derived from its content, so that a field taken from another object is
// detected.
func node(content string) string  { return "node-" + content }
func image(content string) string { return "registry.example/app:" + content }

func pod(key object.Key, content int) *corev1.Pod {
	labels := contentLabels(content)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Labels: labels},
		Spec: corev1.PodSpec{
			NodeName:   node(labels["content"]),
			Containers: []corev1.Container{{Name: "main", Image: image(labels["content"])}},
		},
	}
}

func widget(kind object.GVK, key object.Key, content int) *unstructured.Unstructured {
	labels := contentLabels(content)
	w := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"node": node(labels["content"]), "size": int64(content)},
	}}
	w.SetGroupVersionKind(kind)
	w.SetNamespace(key.Namespace)
	w.SetName(key.Name)
	w.SetLabels(labels)
	return w
}

// whole returns an error if any of o's fields does not match its content.
func whole(form Form, o object.Object) error {
	content, ok := o.GetLabels()["content"]
	if !ok {
		return fmt.Errorf("it has no content: labels %v", o.GetLabels())
	}
	if has := o.GetAnnotations()[marking] != ""; has != form.Transformed {
		return fmt.Errorf("transformed: %v", has)
	}
	var hasNode, hasImage string
	switch o := o.(type) {
	case *corev1.Pod:
		hasNode = o.Spec.NodeName
		hasImage = image(content)
		if form.Of == Pods {
			if len(o.Spec.Containers) != 1 {
				return fmt.Errorf("it has %d containers", len(o.Spec.Containers))
			}
			hasImage = o.Spec.Containers[0].Image
		} else if len(o.Spec.Containers) != 0 {
			return fmt.Errorf("it has containers, which were not requested")
		}
	case *unstructured.Unstructured:
		hasNode, _, _ = unstructured.NestedString(o.Object, "spec", "node")
		hasImage = image(content)
		if size, _, err := unstructured.NestedInt64(o.Object, "spec", "size"); err != nil || fmt.Sprint(size) != content {
			return fmt.Errorf("content %s has size %d", content, size)
		}
	default:
		return nil
	}
	if hasNode != node(content) || hasImage != image(content) {
		return fmt.Errorf("content %s has node %s and image %s", content, hasNode, hasImage)
	}
	return nil
}

// weigh adds the extra bytes that this world gives its objects.
func (p *play) weigh(o object.Object) object.Object {
	if p.World.Weight > 0 {
		o.SetAnnotations(map[string]string{"weight": strings.Repeat("x", p.World.Weight)})
	}
	return o
}

// put stores a pod on the server.
func (p *play) put(who, content int) string {
	key := keyOf(who)
	o, err := p.srv.Put(p.weigh(pod(key, content)))
	if err != nil {
		p.breaks("put %s: %v", key, err)
		return ""
	}
	p.pods.made(key, o, content)
	return o.GetResourceVersion()
}

func (p *play) putWidget(who, content int) {
	key := p.widgetKey(who)
	o, err := p.srv.Put(p.weigh(widget(p.shape.GVK(), key, content)))
	if err != nil {
		return // the kind is not served
	}
	p.widgets.made(key, o, content)
}

// remove deletes an object on the server.
func (p *play) remove(gvr object.GVR, h *history, key object.Key) {
	if p.srv.Delete(gvr, key) == nil {
		h.removed(key, number(p.srv.RVOf(gvr)))
	}
}

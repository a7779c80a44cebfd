package objects

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fields builds a FieldsV1 tree: nested objects whose names are "f:" plus a field name, or "k:" plus a
// list item's key, and whose leaves are empty. See FieldsV1 in the documentation of meta/v1.ObjectMeta.
// It contains only the branches that make up most of the size; a real entry has a few more.
type fields struct{ strings.Builder }

// open starts a branch. If whole is true, the manager also owns the branch itself.
func (f *fields) open(name string, whole bool) {
	f.name(name)
	f.WriteByte('{')
	if whole {
		f.leaf(".")
	}
}

func (f *fields) shut() { f.WriteByte('}') }

func (f *fields) leaf(names ...string) {
	for _, name := range names {
		f.name(name)
		f.WriteString("{}")
	}
}

// name writes a name, preceded by a separator if needed.
func (f *fields) name(name string) {
	if s := f.String(); s == "" {
		f.Grow(2048)
		f.WriteByte('{')
	} else if s[len(s)-1] != '{' {
		f.WriteByte(',')
	}
	f.WriteByte('"')
	for {
		before, after, quoted := strings.Cut(name, `"`)
		f.WriteString(before)
		if !quoted {
			break
		}
		f.WriteString(`\"`)
		name = after
	}
	f.WriteString(`":`)
}

// done returns the complete text.
func (f *fields) done() string {
	f.WriteByte('}')
	return f.String()
}

// key returns the name for an item in a keyed list.
func key(name, value string) string { return `k:{"` + name + `":"` + value + `"}` }

func managed(manager, subresource, apiVersion string, at metav1.Time, owned string) metav1.ManagedFieldsEntry {
	// How FieldsV1 stores the text depends on the version of apimachinery.
	var tree metav1.FieldsV1
	if err := tree.UnmarshalJSON([]byte(owned)); err != nil {
		panic(err) // it only fails for a nil receiver
	}
	return metav1.ManagedFieldsEntry{
		Manager:     manager,
		Operation:   metav1.ManagedFieldsOperationUpdate,
		APIVersion:  apiVersion,
		Time:        &at,
		FieldsType:  "FieldsV1",
		FieldsV1:    &tree,
		Subresource: subresource,
	}
}

// labelsAndOwner writes the metadata owned by an object's creator.
func (f *fields) labelsAndOwner(meta *metav1.ObjectMeta) {
	f.open("f:metadata", false)
	for _, m := range []struct {
		name   string
		values map[string]string
	}{{"f:annotations", meta.Annotations}, {"f:labels", meta.Labels}} {
		if len(m.values) == 0 {
			continue
		}
		f.open(m.name, true)
		for _, k := range slices.Sorted(maps.Keys(m.values)) {
			f.leaf("f:" + k)
		}
		f.shut()
	}
	for _, owner := range meta.OwnerReferences {
		f.open("f:ownerReferences", true)
		f.leaf(key("uid", string(owner.UID)))
		f.shut()
	}
	f.shut()
}

// podSpec writes the fields of a pod's specification that come from its template.
func (f *fields) podSpec(spec *corev1.PodSpec) {
	f.open("f:spec", false)
	f.open("f:containers", false)
	for i := range spec.Containers {
		c := &spec.Containers[i]
		f.open(key("name", c.Name), true)
		f.leaf("f:args")
		f.open("f:env", true)
		for _, env := range c.Env {
			f.leaf(key("name", env.Name))
		}
		f.shut()
		f.leaf("f:image", "f:livenessProbe", "f:name", "f:ports", "f:readinessProbe", "f:resources")
		f.shut()
	}
	f.shut()
	f.leaf("f:dnsPolicy", "f:restartPolicy", "f:serviceAccountName")
	f.shut()
}

// condition writes an item in a list of conditions, with an extra unique field in the hostile variant.
func (f *fields) condition(s *source, kind string, leaves ...string) {
	f.open(key("type", kind), false)
	f.leaf(leaves...)
	if s.hostile {
		f.leaf("f:" + s.token(7))
	}
	f.shut()
}

func ownedByController(pod *corev1.Pod) string {
	var f fields
	f.labelsAndOwner(&pod.ObjectMeta)
	f.podSpec(&pod.Spec)
	return f.done()
}

func ownedByKubelet(s *source, pod *corev1.Pod, o Options) string {
	var f fields
	f.open("f:status", false)
	f.open("f:conditions", false)
	for _, c := range pod.Status.Conditions {
		f.condition(s, string(c.Type), "f:lastTransitionTime", "f:status")
	}
	f.shut()
	f.leaf("f:containerStatuses", "f:hostIP", "f:phase", "f:podIP")
	f.open("f:podIPs", true)
	if !o.Alike {
		f.open(key("ip", pod.Status.PodIP), true)
		f.leaf("f:ip")
		f.shut()
	}
	f.shut()
	f.leaf("f:startTime")
	f.shut()
	return f.done()
}

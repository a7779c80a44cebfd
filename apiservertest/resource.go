package apiservertest

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/api/validation/path"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/millrace-dev/millrace/object"
)

// Resource describes one served resource, like a CustomResourceDefinition or the API server's registration
// of a built-in resource. Singular and ListKind are derived from Kind by default.
type Resource struct {
	object.GVR

	Kind       string
	ListKind   string
	Singular   string
	ShortNames []string
	Categories []string
	Namespaced bool

	// Status enables the status subresource. Writes to the resource itself then do not change the
	// status.
	Status bool

	// Scale describes the scale subresource; nil if there is none.
	Scale *Scale

	// Generation makes the server count changes to the spec in metadata.generation.
	Generation bool

	// New returns an empty object of the resource's Go type. If nil, the resource is a custom resource,
	// with unstructured objects and without protobuf.
	New func() object.Object

	// Fields returns the fields that a field selector may use in addition to metadata.name and
	// metadata.namespace. It is called with objects of the resource and, to find out the field names,
	// with an empty one.
	Fields func(object.Object) fields.Set

	// Schema is a custom resource's openAPIV3Schema, in JSON or YAML. It determines how applied lists are
	// merged. The server does not use it for validation, defaulting or pruning. Without a schema, each
	// list outside the metadata is a single field.
	Schema []byte

	// Strategies for individual built-in resources.

	noDeleteCollection  bool // namespaces can only be deleted one by one
	keepsStatusOnCreate bool // nodes are created with a status
	createsOnUpdate     bool // PUT creates a missing object
	needsVersion        bool // PUT requires a resourceVersion
	marksDeletion       bool // DELETE first sets the deletion timestamp, then deletes
	returnsDeleted      bool // DELETE returns the object, not a Status
	statusLabels        bool // a status write may change labels
	statusAnnotations   bool // a status write may change annotations
	annotationsCount    bool // annotation changes increment the generation, since ReplicaSets copy them
	pods                bool // has the binding, eviction and log subresources
	defaults            func(object.Object)
	fieldNames          fields.Set
	validName           validation.ValidateNameFunc // validates new names; nil means DNS subdomain names
}

// GVK returns the objects' kind.
func (r *Resource) GVK() object.GVK {
	return r.GroupVersion().WithKind(r.Kind)
}

// complete fills in derived fields and validates the rest.
func (r *Resource) complete() error {
	if r.GVR.Resource == "" || r.Version == "" || r.Kind == "" {
		return fmt.Errorf("resource %v: version, resource and kind must be set", r.GVR)
	}
	if r.ListKind == "" {
		r.ListKind = r.Kind + "List"
	}
	if r.Singular == "" {
		r.Singular = strings.ToLower(r.Kind)
	}
	if r.New == nil {
		gvk := r.GVK()
		r.New = func() object.Object {
			u := &unstructured.Unstructured{}
			u.SetGroupVersionKind(gvk)
			return u
		}
	}
	if r.Fields != nil {
		r.fieldNames = r.Fields(r.New())
	}
	if r.Scale != nil {
		if err := r.Scale.complete(); err != nil {
			return fmt.Errorf("resource %v: %w", r.GVR, err)
		}
	}
	r.needsVersion = r.needsVersion || r.custom()
	if r.validName == nil {
		r.validName = validation.NameIsDNSSubdomain
	}
	return nil
}

// custom reports whether the API server's rules for custom resources apply, which have no protobuf format. A Go
// type from outside k8s.io/api makes no difference.
func (r *Resource) custom() bool {
	t := r.goType()
	return r.untyped() || t.Kind() != reflect.Pointer || !object.IsBuiltin(t.Elem())
}

// untyped reports whether objects are unstructured.
func (r *Resource) untyped() bool {
	_, unstructured := r.New().(*unstructured.Unstructured)
	return unstructured
}

func (r *Resource) goType() reflect.Type { return reflect.TypeOf(r.New()) }

// fieldSet returns the values that field selectors are matched against.
func (r *Resource) fieldSet(o object.Object) fields.Set {
	set := fields.Set{}
	if r.Fields != nil {
		set = r.Fields(o)
	}
	set["metadata.name"] = o.GetName()
	if r.Namespaced {
		set["metadata.namespace"] = o.GetNamespace()
	}
	return set
}

// fieldLabel checks one term of a field selector and returns its canonical form. The errors match those of
// the API server's conversion functions.
func (r *Resource) fieldLabel(label, value string) (string, string, error) {
	switch label {
	case "metadata.name":
		return label, value, nil
	case "metadata.namespace":
		if r.Namespaced || r.Fields == nil {
			return label, value, nil
		}
	case "spec.host":
		if r.Kind == "Pod" {
			return "spec.nodeName", value, nil
		}
	case "name":
		if r.Kind == "Namespace" {
			return "metadata.name", value, nil
		}
	}
	if _, known := r.fieldNames[label]; known {
		return label, value, nil
	}
	switch {
	case r.Fields == nil:
		return "", "", fmt.Errorf("%q is not a known field selector: only %q, %q", label, "metadata.name", "metadata.namespace")
	case r.Kind == "Job":
		return "", "", fmt.Errorf("field label %q not supported for Job", label)
	}
	return "", "", fmt.Errorf("field label not supported: %s", label)
}

// Builtin returns the resources that every server provides: pods, services, configmaps, secrets,
// namespaces, nodes, events, leases, the apps and batch workloads, and other resources that controllers
// often create: service accounts, volume claims, quotas, limits, ingresses, network policies, disruption
// budgets, roles and role bindings.
func Builtin() []Resource {
	core := func(resource, kind string, namespaced bool, new func() object.Object, short ...string) Resource {
		return Resource{
			GVR:  corev1.SchemeGroupVersion.WithResource(resource),
			Kind: kind, Namespaced: namespaced, New: new, ShortNames: short,
			statusLabels: true, statusAnnotations: true,
		}
	}
	pods := core("pods", "Pod", true, func() object.Object { return &corev1.Pod{} }, "po")
	pods.Status, pods.Generation = true, true
	pods.marksDeletion, pods.returnsDeleted, pods.pods = true, true, true
	pods.Categories = []string{"all"}
	pods.Fields, pods.defaults = podFields, podDefaults

	services := core("services", "Service", true, func() object.Object { return &corev1.Service{} }, "svc")
	services.Status, services.createsOnUpdate, services.returnsDeleted = true, true, true
	services.validName = validation.NameIsDNSLabel
	services.Categories = []string{"all"}
	services.Fields = func(o object.Object) fields.Set {
		s := o.(*corev1.Service)
		return fields.Set{"spec.clusterIP": s.Spec.ClusterIP, "spec.type": string(s.Spec.Type)}
	}

	secrets := core("secrets", "Secret", true, func() object.Object { return &corev1.Secret{} })
	secrets.Fields = func(o object.Object) fields.Set {
		return fields.Set{"type": string(o.(*corev1.Secret).Type)}
	}
	secrets.defaults = func(o object.Object) {
		if s := o.(*corev1.Secret); s.Type == "" {
			s.Type = corev1.SecretTypeOpaque
		}
	}

	namespaces := core("namespaces", "Namespace", false, func() object.Object { return &corev1.Namespace{} }, "ns")
	namespaces.Status, namespaces.noDeleteCollection = true, true
	namespaces.Fields = func(o object.Object) fields.Set {
		return fields.Set{"status.phase": string(o.(*corev1.Namespace).Status.Phase)}
	}
	namespaces.defaults, namespaces.validName = namespaceDefaults, validation.ValidateNamespaceName

	nodes := core("nodes", "Node", false, func() object.Object { return &corev1.Node{} }, "no")
	nodes.Status, nodes.keepsStatusOnCreate = true, true
	nodes.Fields = func(o object.Object) fields.Set {
		return fields.Set{"spec.unschedulable": fmt.Sprint(o.(*corev1.Node).Spec.Unschedulable)}
	}

	events := core("events", "Event", true, func() object.Object { return &corev1.Event{} }, "ev")
	events.Fields, events.createsOnUpdate, events.validName = eventFields, true, path.ValidatePathSegmentName

	return append([]Resource{
		pods, services, secrets, namespaces, nodes, events,
		core("configmaps", "ConfigMap", true, func() object.Object { return &corev1.ConfigMap{} }, "cm"),
	}, append(builtinGroups(), owned()...)...)
}

func builtinGroups() []Resource {
	return []Resource{{
		GVR:  eventsv1.SchemeGroupVersion.WithResource("events"),
		Kind: "Event", Namespaced: true, createsOnUpdate: true,
		ShortNames: []string{"ev"},
		New:        func() object.Object { return &eventsv1.Event{} }, Fields: newEventFields,
	}, {
		GVR:  coordinationv1.SchemeGroupVersion.WithResource("leases"),
		Kind: "Lease", Namespaced: true, createsOnUpdate: true, needsVersion: true,
		New: func() object.Object { return &coordinationv1.Lease{} },
	}, {
		GVR:  appsv1.SchemeGroupVersion.WithResource("deployments"),
		Kind: "Deployment", Namespaced: true, Status: true, Scale: scaleOfWorkload, Generation: true, statusAnnotations: true, annotationsCount: true,
		ShortNames: []string{"deploy"}, Categories: []string{"all"},
		New: func() object.Object { return &appsv1.Deployment{} },
	}, {
		GVR:  appsv1.SchemeGroupVersion.WithResource("replicasets"),
		Kind: "ReplicaSet", Namespaced: true, Status: true, Scale: scaleOfWorkload, Generation: true, statusAnnotations: true,
		ShortNames: []string{"rs"}, Categories: []string{"all"},
		New: func() object.Object { return &appsv1.ReplicaSet{} },
	}}
}

func podFields(o object.Object) fields.Set {
	p := o.(*corev1.Pod)
	return fields.Set{
		"spec.nodeName":            p.Spec.NodeName,
		"spec.restartPolicy":       string(p.Spec.RestartPolicy),
		"spec.schedulerName":       p.Spec.SchedulerName,
		"spec.serviceAccountName":  p.Spec.ServiceAccountName,
		"spec.hostNetwork":         fmt.Sprint(p.Spec.HostNetwork),
		"status.phase":             string(p.Status.Phase),
		"status.podIP":             p.Status.PodIP,
		"status.podIPs":            "", // the real server accepts the name but has no value for it
		"status.nominatedNodeName": p.Status.NominatedNodeName,
	}
}

func podDefaults(o object.Object) {
	p := o.(*corev1.Pod)
	if p.Spec.RestartPolicy == "" {
		p.Spec.RestartPolicy = corev1.RestartPolicyAlways
	}
	if p.Spec.SchedulerName == "" {
		p.Spec.SchedulerName = corev1.DefaultSchedulerName
	}
	if p.Status.Phase == "" {
		p.Status.Phase = corev1.PodPending
	}
}

func namespaceDefaults(o object.Object) {
	ns := o.(*corev1.Namespace)
	if ns.Labels == nil {
		ns.Labels = map[string]string{}
	}
	ns.Labels[corev1.LabelMetadataName] = ns.Name
	if ns.Status.Phase == "" {
		ns.Status.Phase = corev1.NamespaceActive
	}
}

func eventFields(o object.Object) fields.Set {
	e := o.(*corev1.Event)
	source := cmp.Or(e.Source.Component, e.ReportingController)
	return fields.Set{
		"involvedObject.kind":            e.InvolvedObject.Kind,
		"involvedObject.namespace":       e.InvolvedObject.Namespace,
		"involvedObject.name":            e.InvolvedObject.Name,
		"involvedObject.uid":             string(e.InvolvedObject.UID),
		"involvedObject.apiVersion":      e.InvolvedObject.APIVersion,
		"involvedObject.resourceVersion": e.InvolvedObject.ResourceVersion,
		"involvedObject.fieldPath":       e.InvolvedObject.FieldPath,
		"reason":                         e.Reason,
		"reportingComponent":             e.ReportingController,
		"source":                         source,
		"type":                           e.Type,
	}
}

// newEventFields returns the selectable fields of events.k8s.io events.
func newEventFields(o object.Object) fields.Set {
	e := o.(*eventsv1.Event)
	return fields.Set{
		"regarding.kind":            e.Regarding.Kind,
		"regarding.namespace":       e.Regarding.Namespace,
		"regarding.name":            e.Regarding.Name,
		"regarding.uid":             string(e.Regarding.UID),
		"regarding.apiVersion":      e.Regarding.APIVersion,
		"regarding.resourceVersion": e.Regarding.ResourceVersion,
		"regarding.fieldPath":       e.Regarding.FieldPath,
		"reason":                    e.Reason,
		"reportingController":       e.ReportingController,
		"type":                      e.Type,
	}
}

func jobFields(o object.Object) fields.Set {
	return fields.Set{"status.successful": fmt.Sprint(o.(*batchv1.Job).Status.Succeeded)}
}

package sharedinformer

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/source"
)

func (i *core) Source() source.Description { return i.from }

func (i *core) Selects(o object.Head) bool {
	switch namespace := o.GetNamespace(); {
	case !i.Watches(namespace):
		return false
	case i.ownership != nil && i.ownership.Terms().Since(o) == 0:
		return false
	case i.labels != nil && i.keepsLabels() && !i.labels.Matches(object.Labels(o)):
		return false
	}
	if i.fields == nil {
		return true
	}
	for _, r := range i.fields.Requirements() {
		value := o.GetName()
		switch r.Field {
		case "metadata.name":
		case "metadata.namespace":
			value = o.GetNamespace()
		default:
			continue
		}
		if (r.Value == value) == (r.Operator == selection.NotEquals) {
			return false
		}
	}
	return true
}

func (i *core) Decides() bool {
	if i.labels != nil && !i.labels.Empty() && !i.keepsLabels() {
		return false
	}
	return i.fields == nil || !slices.ContainsFunc(i.fields.Requirements(), func(r fields.Requirement) bool {
		return r.Field != "metadata.name" && r.Field != "metadata.namespace"
	})
}

func (i *core) keepsLabels() bool { return i.from.Kept.KeepsAll("metadata.labels") }

func (i *core) Watches(namespace string) bool {
	if namespace == "" {
		return len(i.Namespaces()) > 0 || len(i.feeds.all()) > 0
	}
	if !i.from.Reaches(namespace) {
		return false
	}
	set := i.Namespaces()
	return slices.Contains(set, namespace) || slices.Contains(set, metav1.NamespaceAll)
}

package sharedinformer

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// scope is which objects an informer has, and what of them.
type scope struct {
	limited source.Limited // nil where the source does not say
	labels  labels.Selector
	fields  fields.Selector
}

func scopeOf(from any, labels labels.Selector, fields fields.Selector) scope {
	limited, _ := from.(source.Limited)
	return scope{limited: limited, labels: labels, fields: fields}
}

func (i *core) Kept() wire.Fields {
	if i.scope.limited == nil {
		return wire.Fields{}
	}
	return i.scope.limited.Kept()
}

func (i *core) Altered() bool { return i.scope.limited != nil && i.scope.limited.Altered() }

func (i *core) Selects(o object.Head) bool {
	s := i.scope
	switch namespace := o.GetNamespace(); {
	case !i.Watches(namespace):
		return false
	case i.shards != nil && i.shards.look().of(i.shards.Key.Hash(o)) == 0:
		return false
	case s.labels != nil && i.Kept().KeepsAll("metadata.labels") && !s.labels.Matches(labels.Set(o.GetLabels())):
		return false
	}
	if s.fields == nil {
		return true
	}
	for _, r := range s.fields.Requirements() {
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

func (i *core) Watches(namespace string) bool {
	if namespace == "" {
		return true
	}
	if i.scope.limited != nil && !i.scope.limited.Reaches(namespace) {
		return false
	}
	set := i.Namespaces()
	return slices.Contains(set, namespace) || slices.Contains(set, metav1.NamespaceAll)
}

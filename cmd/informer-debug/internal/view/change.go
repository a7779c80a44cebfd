package view

import (
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/diff"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/jsonpath"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/internal/confidential"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// change is an event to show, for any type of object.
type change struct {
	kind    sharedinformer.EventType
	at      time.Time
	secret  bool // according to the name of the resource
	object  object.Object
	old     object.Object // nil unless this is an update
	initial bool
	missed  bool // the deletion was detected by a list, so object is the last known state
	latency latency
}

func changeOf[T object.Object](e *sharedinformer.Event[T]) change {
	now := time.Now()
	c := change{
		kind: e.Type, at: now, object: e.Object,
		initial: e.Initial, missed: e.FinalStateUnknown,
		latency: latencyOf(e, now),
	}
	if e.Type == sharedinformer.Update {
		c.old = e.Old
	}
	return c
}

// age returns the object's age in kubectl's format.
func (c *change) age() string {
	created := c.object.GetCreationTimestamp()
	if created.IsZero() {
		return "-"
	}
	return duration.HumanDuration(c.at.Sub(created.Time))
}

// differences returns the fields changed by an update.
func (c *change) differences() ([]diff.Change, error) {
	if c.old == nil {
		return nil, nil
	}
	return diff.Between(c.old, c.object)
}

// concerns reports whether the change affects a value at any of the paths. Adding or deleting an object
// affects all its values. It returns true if there are no paths.
func (c *change) concerns(places []jsonpath.Path) (bool, error) {
	if len(places) == 0 {
		return true, nil
	}
	if c.initial {
		return false, nil
	}
	now, err := diff.Content(c.object)
	if err != nil {
		return false, err
	}
	var before map[string]any
	if c.old != nil {
		if before, err = diff.Content(c.old); err != nil {
			return false, err
		}
	}
	for _, place := range places {
		if !reflect.DeepEqual(place.Find(before), place.Find(now)) {
			return true, nil
		}
	}
	return false, nil
}

// confidential reports whether the object's values must not be shown.
func (c *change) confidential() bool { return c.secret || confidential.Object(c.object) }

// shown returns the object or, if it is confidential, only the metadata that get shows, too. Annotations are
// left out, since one may contain a copy of the object.
func (c *change) shown() object.Object {
	if !c.confidential() {
		return c.object
	}
	o := c.object
	return &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: metav1.SchemeGroupVersion.String(), Kind: "PartialObjectMetadata"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(),
			Generation: o.GetGeneration(), CreationTimestamp: o.GetCreationTimestamp(), DeletionTimestamp: o.GetDeletionTimestamp(),
			Labels: o.GetLabels(), OwnerReferences: o.GetOwnerReferences(),
		},
	}
}

// identity returns an object's key and version as shown in the table. They also determine the column
// widths.
func identity(o object.Object) (key, rv string) {
	return terminal.OneLine(object.FormatKey(object.KeyOf(o))), terminal.OneLine(o.GetResourceVersion())
}

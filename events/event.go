package events

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/object"
)

// API limits, in bytes.
const (
	maxNote = 1024
	maxWord = 128 // for the instance, reason and action
)

// make returns the event to create. It adjusts fields as necessary for the API to accept the event, because
// a rejected event would be lost. The event shares no memory with the objects, so that they can be
// garbage-collected sooner.
func (r *Recorder) make(about object.Object, e Event, now time.Time) *eventsv1.Event {
	namespace := strings.Clone(about.GetNamespace())
	if namespace == "" {
		namespace = metav1.NamespaceDefault // kubectl looks here for events about cluster-scoped objects
	}
	if e.Type != corev1.EventTypeWarning {
		e.Type = corev1.EventTypeNormal
	}
	if e.Action == "" {
		e.Action = e.Reason
	}
	if e.Reason == "" {
		e.Reason = e.Action
	}
	if e.Reason == "" {
		e.Reason, e.Action = "Unknown", "Unknown"
	}
	event := &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: namespace, Name: nameFor(about.GetName())},
		EventTime:           metav1.NewMicroTime(now),
		ReportingController: r.controller,
		ReportingInstance:   r.opts.Instance,
		Type:                e.Type, Reason: cut(e.Reason, maxWord), Action: cut(e.Action, maxWord), Note: cut(e.Note, maxNote),
		Regarding: r.reference(about),
	}
	if e.Related != nil {
		related := r.reference(e.Related)
		event.Related = &related
	}
	return event
}

// nameFor returns a unique event name. It starts with the object's name if that is a DNS subdomain, as
// event names must be; some kinds allow other names ("system:node").
func nameFor(about string) string {
	suffix := fmt.Sprintf(".%016x", rand.Uint64())
	about = strings.TrimRight(about[:min(len(about), content.DNS1123SubdomainMaxLength-len(suffix))], ".-")
	if name := about + suffix; len(content.IsDNS1123Subdomain(name)) == 0 {
		return name
	}
	return "event" + suffix
}

// cut returns a copy of text, truncated to at most n bytes.
func cut(text string, n int) string {
	return strings.Clone(strings.ToValidUTF8(text[:min(len(text), n)], ""))
}

// reference returns a reference to an object. The reference has no kind if the object's type is not in the
// scheme.
func (r *Recorder) reference(o object.Object) corev1.ObjectReference {
	kind, _ := r.client.KindOf(o)
	version, name := kind.ToAPIVersionAndKind()
	return corev1.ObjectReference{
		APIVersion: version, Kind: strings.Clone(name),
		Namespace: strings.Clone(o.GetNamespace()), Name: strings.Clone(o.GetName()),
		UID: types.UID(strings.Clone(string(o.GetUID()))), ResourceVersion: strings.Clone(o.GetResourceVersion()),
	}
}

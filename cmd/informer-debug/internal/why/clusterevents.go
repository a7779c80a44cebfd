package why

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/discovery"
)

const (
	// eventsShown is the number of Events shown per object.
	eventsShown = 10

	// eventsPatience is the timeout for reading Events, the least important part of the answer.
	eventsPatience = 10 * time.Second
)

// eventsMapping is the mapping for Events, which every server supports.
var eventsMapping = discovery.Mapping{
	Kind:       corev1.SchemeGroupVersion.WithKind("Event"),
	Resource:   corev1.SchemeGroupVersion.WithResource("events"),
	Namespaced: true,
	Verbs:      []string{"list"},
}

// clusterEvents contains the Events for one object in a cluster.
type clusterEvents struct {
	Last []clusterEvent // the newest ones, newest last
	All  int
	Err  error // why they are unknown
}

// clusterEvent is a single Event.
type clusterEvent struct {
	At                    time.Time // last occurrence; zero if unknown
	Type, Reason, Message string
	Count                 int
}

// readEvents reads the Events for an object with one request. If the object was recreated, it skips Events
// for its predecessor.
func readEvents(ctx context.Context, client *rest.Client, kind string, key object.Key, uid string) *clusterEvents {
	found := &clusterEvents{}
	ctx, cancel := context.WithTimeoutCause(ctx, eventsPatience, fmt.Errorf("no response within %s", eventsPatience))
	defer cancel()
	of := fields.Set{"involvedObject.kind": kind, "involvedObject.name": key.Name}
	if key.Namespace != "" {
		of["involvedObject.namespace"] = key.Namespace
	}
	events := rest.ResourceForMapping[*unstructured.Unstructured](client, eventsMapping).Namespace(key.Namespace)
	for o, err := range events.List(ctx, metav1.ListOptions{FieldSelector: of.AsSelector().String()}).Items {
		if err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return &clusterEvents{Err: err}
		}
		var e corev1.Event
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &e); err != nil {
			return &clusterEvents{Err: fmt.Errorf("event %s: %w", o.GetName(), err)}
		}
		if about := string(e.InvolvedObject.UID); about != "" && about != uid && about != key.Name { // kubelets use a Node's name as its UID
			continue
		}
		found.add(eventOf(&e))
	}
	return found
}

// add keeps an event if it is among the newest.
func (c *clusterEvents) add(e clusterEvent) {
	c.All++
	c.Last = append(c.Last, e)
	slices.SortStableFunc(c.Last, func(a, b clusterEvent) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Reason, b.Reason))
	})
	if len(c.Last) > eventsShown {
		c.Last = c.Last[1:]
	}
}

// eventOf converts an Event, with or without a series.
func eventOf(e *corev1.Event) clusterEvent {
	one := clusterEvent{Type: e.Type, Reason: e.Reason, Message: e.Message, Count: max(int(e.Count), 1)}
	for _, at := range []time.Time{e.CreationTimestamp.Time, e.FirstTimestamp.Time, e.EventTime.Time, e.LastTimestamp.Time} {
		if at.After(one.At) {
			one.At = at
		}
	}
	if s := e.Series; s != nil {
		one.Count = max(int(s.Count), 1)
		if s.LastObservedTime.After(one.At) {
			one.At = s.LastObservedTime.Time
		}
	}
	return one
}

// write prints the events as a table, or one line explaining why there are none.
func (c *clusterEvents) write(b *strings.Builder) {
	switch {
	case apierrors.IsForbidden(c.Err) || apierrors.IsUnauthorized(c.Err):
		line(b, "Not allowed to read its Events: %v.", c.Err)
		return
	case c.Err != nil:
		line(b, "Its Events could not be read: %v.", c.Err)
		return
	case c.All == 0:
		line(b, "The cluster has no Events for it.")
		return
	case c.All > len(c.Last):
		line(b, "The last %d of %d Events for it in the cluster:", len(c.Last), c.All)
	default:
		line(b, "Events for it in the cluster:")
	}
	t := &terminal.Table{To: b, Header: []string{"  AGE", "TYPE", "REASON", "COUNT", "MESSAGE"}}
	for _, e := range c.Last {
		age := "-"
		if !e.At.IsZero() {
			age = duration.HumanDuration(time.Since(e.At))
		}
		t.Row("  "+age, terminal.OrDash(e.Type), terminal.OrDash(e.Reason), strconv.Itoa(e.Count), e.Message)
	}
	_ = t.Write() // never fails: it writes to memory
}

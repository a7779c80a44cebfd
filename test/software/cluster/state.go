package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
)

// running returns an error as long as any object has not reached its desired state.
func (c *Cluster) running(ctx context.Context) error {
	for _, err := range []error{
		each(ctx, rest.ResourceFor[*appsv1.Deployment](c.client), func(d *appsv1.Deployment) error {
			s, want := d.Status, *d.Spec.Replicas
			if s.ObservedGeneration != d.Generation || s.Replicas != want || s.UpdatedReplicas != want || s.AvailableReplicas != want {
				return fmt.Errorf("deployment %s does not have %d replicas yet: %+v", object.KeyOf(d), want, s)
			}
			return nil
		}),
		each(ctx, rest.ResourceFor[*appsv1.StatefulSet](c.client), func(d *appsv1.StatefulSet) error {
			s, want := d.Status, *d.Spec.Replicas
			if s.ObservedGeneration != d.Generation || s.Replicas != want || s.AvailableReplicas != want {
				return fmt.Errorf("stateful set %s does not have %d replicas yet: %+v", object.KeyOf(d), want, s)
			}
			return nil
		}),
		each(ctx, rest.ResourceFor[*appsv1.DaemonSet](c.client), func(d *appsv1.DaemonSet) error {
			if d.Status.NumberAvailable != nodes {
				return fmt.Errorf("daemon set %s: %+v", object.KeyOf(d), d.Status)
			}
			return nil
		}),
		each(ctx, rest.ResourceFor[*batchv1.Job](c.client), func(j *batchv1.Job) error {
			if j.Status.CompletionTime == nil {
				return fmt.Errorf("job %s is not complete: %+v", object.KeyOf(j), j.Status)
			}
			return nil
		}),
		c.counted(ctx),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}

// counted returns an error as long as a quota does not match the number of running Pods.
func (c *Cluster) counted(ctx context.Context) error {
	pods := map[string]int64{}
	err := each(ctx, rest.ResourceFor[*corev1.Pod](c.client), func(p *corev1.Pod) error {
		if p.Status.Phase != corev1.PodSucceeded {
			pods[p.Namespace]++
		}
		return nil
	})
	return errors.Join(err, each(ctx, rest.ResourceFor[*corev1.ResourceQuota](c.client), func(q *corev1.ResourceQuota) error {
		if used := q.Status.Used.Pods().Value(); used != pods[q.Namespace] {
			return fmt.Errorf("the quota of %s counts %d Pods, want %d", q.Namespace, used, pods[q.Namespace])
		}
		return nil
	}))
}

// settle waits until the state has not changed for ten seconds.
func (c *Cluster) settle(ctx context.Context) error {
	var last State
	same := 0
	return until(ctx, func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(2 * time.Second):
		}
		now, err := c.State(ctx)
		if err != nil {
			return err
		}
		differences := Differences(last, now)
		last, same = now, same+1
		if len(differences) > 0 {
			same = 0
		}
		if same < 5 {
			return fmt.Errorf("the state is still changing: %s", strings.Join(differences, "\n"))
		}
		return nil
	})
}

// State is a cluster's content: a map from descriptions to the number of objects that match each. A
// description consists of the resource and the object's JSON, minus everything that varies between runs.
type State map[string]int

// Objects returns the number of objects.
func (s State) Objects() (n int) {
	for _, count := range s {
		n += count
	}
	return n
}

// Differences returns the descriptions whose object counts differ.
func Differences(a, b State) (all []string) {
	keys := maps.Clone(a)
	if keys == nil {
		keys = State{}
	}
	maps.Copy(keys, b)
	for _, text := range slices.Sorted(maps.Keys(keys)) {
		if a[text] != b[text] {
			all = append(all, fmt.Sprintf("%d and %d of %s", a[text], b[text], text))
		}
	}
	return all
}

// passing lists the resources that only describe past or transient states.
var passing = []string{"events", "leases", "leasecandidates", "componentstatuses"}

// State reads all objects in the cluster.
func (c *Cluster) State(ctx context.Context) (State, error) {
	places, err := c.client.Mapper().Mappings(ctx)
	if err != nil {
		return nil, err
	}
	var all []located
	read := map[string]bool{}
	for _, place := range places {
		name := place.Resource.GroupResource().String()
		if read[name] || slices.Contains(passing, place.Resource.Resource) {
			continue
		}
		read[name] = true
		for o, err := range rest.ResourceForMapping[*unstructured.Unstructured](c.client, place).List(ctx, metav1.ListOptions{}).Items {
			if apierrors.IsMethodNotSupported(err) || apierrors.IsNotFound(err) {
				break // the resource cannot be listed
			}
			if err != nil {
				return nil, err
			}
			if name == "services" && o.GetNamespace() == "default" {
				continue // it contains the API server's port
			}
			all = append(all, located{name, o})
		}
	}
	return compare(all)
}

type located struct {
	resource string
	object   *unstructured.Unstructured
}

// compare makes objects comparable.
func compare(all []located) (State, error) {
	r := renaming{}
	for _, l := range all {
		o := l.object
		name := o.GetName()
		if prefix := o.GetGenerateName(); prefix != "" {
			name = prefix + "*"
			r[o.GetName()] = name
		}
		r[string(o.GetUID())] = chance("UID of " + l.resource + " " + name)
	}
	s := State{}
	for _, l := range all {
		text, err := json.Marshal(r.plain(l.object.Object, l.object.GetGeneration()))
		if err != nil {
			return nil, err
		}
		s[l.resource+" "+string(text)]++
	}
	return s, nil
}

// renaming maps random values to reproducible names.
type renaming map[string]string

// dropped lists fields that count writes or identify the writer, the time or the node, and an annotation
// whose presence depends on timing.
var dropped = []string{
	"managedFields", "resourceVersion", "creationTimestamp", "generation", "nodeName",
	"endpoints.kubernetes.io/last-change-trigger-time",
}

var (
	address     = regexp.MustCompile(`\b\d+\.\d+\.\d+\.\d+\b`)
	moment      = regexp.MustCompile(`\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\d(\.\d+)?Z)?`)
	digest      = regexp.MustCompile(`\b[0-9a-f]{24}\b`)
	certificate = regexp.MustCompile(`(?s)-----BEGIN.*-----END[^\n]*\n?`)
)

// chance replaces the random parts of text with placeholders.
func chance(text string) string {
	text = certificate.ReplaceAllString(text, "CERTIFICATE")
	text = digest.ReplaceAllString(text, "DIGEST")
	return address.ReplaceAllString(moment.ReplaceAllString(text, "TIME"), "ADDRESS")
}

// plain strips everything that varies between runs, including the order of lists, from a value in an object
// with the given generation.
func (r renaming) plain(v any, generation int64) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, field := range v {
			if name == "observedGeneration" {
				out[name] = field == generation
			} else if kept := r.plain(field, generation); kept != nil && !slices.Contains(dropped, name) {
				out[name] = kept
			}
		}
		if len(out) == 0 {
			return nil // equivalent to absent
		}
		return out
	case []any:
		texts := make([]string, len(v))
		for i, item := range v {
			text, err := json.Marshal(r.plain(item, generation))
			if err != nil {
				panic(err) // the value was parsed from JSON
			}
			texts[i] = string(text)
		}
		slices.Sort(texts)
		return texts
	case string:
		if name, ok := r[v]; ok {
			return name
		}
		return chance(v)
	}
	return v
}

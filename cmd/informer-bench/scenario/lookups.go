package scenario

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
)

// Lookups contains one function for each way to read a cache of Pods. Each returns the number of objects
// visited. They do not access the objects' fields, but copy the objects if Params.Copied is set.
type Lookups struct {
	Get       func(key types.NamespacedName) (int, error)
	Namespace func(namespace string) (int, error)
	Label     func(selector labels.Selector) (int, error) // in all namespaces
	Node      func(node string) (int, error)              // through an index on spec.nodeName
}

// lookedUp is the number of distinct keys, namespaces, labels and nodes to cycle through.
const lookedUp = 10

// Measure repeats each kind of lookup for Params.Millis and measures the time and allocations per lookup,
// after a single warm-up call. Like testing.AllocsPerRun, it rounds allocations down to discount those made
// elsewhere in the program.
func (l Lookups) Measure(s *protocol.Session, pods []*corev1.Pod) (*protocol.Result, error) {
	var (
		keys  [lookedUp]types.NamespacedName
		apps  [lookedUp]labels.Selector
		nodes [lookedUp]string
	)
	for i := range lookedUp {
		p := pods[i*len(pods)/lookedUp]
		keys[i] = types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
		apps[i] = labels.SelectorFromSet(labels.Set{"app": p.Labels["app"]})
		nodes[i] = p.Spec.NodeName
	}
	protocol.HeapInUse() // don't measure collection of the setup's garbage
	if err := s.Mark(protocol.MarkBegin); err != nil {
		return nil, err
	}
	r := &protocol.Result{Metrics: map[string]float64{}}
	for _, way := range []struct {
		name   string
		lookup func(i int) (int, error)
	}{
		{"get", func(i int) (int, error) { return l.Get(keys[i]) }},
		{"namespace", func(i int) (int, error) { return l.Namespace(keys[i].Namespace) }},
		{"label", func(i int) (int, error) { return l.Label(apps[i]) }},
		{"index", func(i int) (int, error) { return l.Node(nodes[i]) }},
	} {
		found, err := round(way.lookup)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", way.name, err)
		}
		r.Heard += found
		lookups, allocations, began := 0, protocol.Mallocs(), time.Now()
		for lookups == 0 || time.Since(began) < time.Duration(s.Params[Millis])*time.Millisecond {
			if _, err := round(way.lookup); err != nil {
				return nil, fmt.Errorf("%s: %w", way.name, err)
			}
			lookups += lookedUp
		}
		r.Metrics[way.name+"_s"] = time.Since(began).Seconds() / float64(lookups)
		r.Metrics[way.name+"_allocs"] = float64((protocol.Mallocs() - allocations) / uint64(lookups))
	}
	return r, s.Mark(protocol.MarkDone)
}

// round performs each lookup once and returns the total number of objects visited.
func round(lookup func(i int) (int, error)) (found int64, err error) {
	for i := range lookedUp {
		n, err := lookup(i)
		if err != nil {
			return 0, err
		}
		if n == 0 {
			return 0, fmt.Errorf("lookup %d found nothing", i)
		}
		found += int64(n)
	}
	return found, nil
}

package scenario

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
)

func TestLookupsAreMeasuredAndCounted(t *testing.T) {
	var said bytes.Buffer
	s := told(protocol.Params{}, &said)
	s.Objects = 3
	pods := NewFeed(s).Items
	l := Lookups{
		Get:       func(types.NamespacedName) (int, error) { return 1, nil },
		Namespace: func(string) (int, error) { return 2, nil },
		Label: func(selector labels.Selector) (n int, err error) {
			for _, p := range pods {
				if selector.Matches(labels.Set(p.Labels)) {
					n++
				}
			}
			return n, nil
		},
		Node: func(node string) (int, error) {
			require.NotEmpty(t, node)
			return 4, nil
		},
	}
	s.Params[Millis] = 1
	r, err := l.Measure(s, pods)
	require.NoError(t, err)
	require.Greater(t, r.Heard, int64(lookedUp*(1+2+4)))
	for _, metric := range []string{"get", "namespace", "label", "index"} {
		require.Positive(t, r.Metrics[metric+"_s"], metric)
		require.Contains(t, r.Metrics, metric+"_allocs")
	}

	l.Node = func(string) (int, error) { return 0, nil }
	_, err = l.Measure(told(protocol.Params{}, &said), pods)
	require.ErrorContains(t, err, "index: lookup 0 found nothing")
}

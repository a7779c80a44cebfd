package json

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/internal/objects"
	"github.com/millrace-dev/millrace/wire/internal/guard"
)

// Checking an object, such as a large one, does not allocate for each name and value.
func TestCheckMakesNothing(t *testing.T) {
	var list corev1.PodList
	for i := range 50 {
		list.Items = append(list.Items, *objects.Pod(1, i, objects.Options{}))
	}
	raw, err := json.Marshal(list)
	require.NoError(t, err)
	g := guard.Of(reflect.TypeFor[corev1.PodList]())
	require.NoError(t, Check(g, raw))
	require.Less(t, testing.AllocsPerRun(10, func() { _ = Check(g, raw) }), 3.0)
}

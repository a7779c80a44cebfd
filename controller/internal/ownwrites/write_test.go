package ownwrites

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/source"
)

func answered(selector string, answers ...object.Object) []Write {
	fields, err := fields.ParseSelector(selector)
	if err != nil {
		panic(err)
	}
	of := Of(sharedinformer.Objects(sharedinformer.New[*corev1.Pod](struct{ source.ListerWatcher }{}, sharedinformer.Options{FieldSelector: fields})))
	var all Writes
	for _, o := range answers {
		all.Answered(of, o, corev1.SchemeGroupVersion.WithKind("Pod"))
	}
	return all.list()
}

func podAt(rv string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a", UID: "1", ResourceVersion: rv}}
}

// If only the server can tell whether the cache gets an object, a watch that does not deliver it may be healthy.
func TestWriteThatOnlyTheServerCanSelectMayNeverArrive(t *testing.T) {
	for selector, due := range map[string]bool{"": true, "metadata.name=a": true, "metadata.name=a,status.phase=Running": false} {
		for _, writes := range [][]Write{answered(selector, podAt("5")), answered(selector, podAt("5"), podAt("6"))} {
			require.Len(t, writes, 1)
			require.Equal(t, due, writes[0].due(), selector)
		}
	}
}

// A cache cannot reach a version that the server did not tell.
func TestAnswerWithoutAVersionIsNotAwaited(t *testing.T) {
	require.Empty(t, answered("", podAt("")))
}

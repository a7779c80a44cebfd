package factory

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/scheme"
)

// A repeated run must request informers in the same order.
func TestInformersAreInTheOrderOfTheirFirstUse(t *testing.T) {
	client, err := rest.NewClient(&config.Config{Host: "http://127.0.0.1:1"}, scheme.New())
	require.NoError(t, err)
	f := New(client, Options{})
	var want, got []string
	for _, i := range []any{
		Informer[*corev1.Pod](f), Informer[*appsv1.Deployment](f), Informer[*corev1.Node](f), Informer[*batchv1.Job](f),
		Informer[*corev1.ConfigMap](f), Informer[*appsv1.ReplicaSet](f), Informer[*corev1.Secret](f), Informer[*corev1.Event](f),
	} {
		want = append(want, fmt.Sprintf("%T", i))
	}
	Informer[*corev1.Node](f)
	for _, e := range f.inOrder() {
		got = append(got, fmt.Sprintf("%T", e.informer))
	}
	require.Equal(t, want, got)
}

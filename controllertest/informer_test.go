package controllertest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/factory"
)

// A test of an informer alone, with made-up responses to watches.
func TestInformerAlone(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	for name, fault := range map[string]apiservertest.Action{
		"no rights":      apiservertest.Fail{Code: 403},
		"a page":         apiservertest.Answer{Body: []byte("<html>")},
		"a broken frame": apiservertest.Raw{Bytes: []byte("]")},
	} {
		t.Run(name, func(t *testing.T) {
			controllertest.Run(t, func(e *controllertest.Env) {
				e.Server.Faults().Add(apiservertest.Fault{Verb: "watch", Do: []apiservertest.Action{fault}})
				pods := factory.Informer[*corev1.Pod](e.Factory)
				e.Start()
				controllertest.Put(e, pod)
				e.Settle(time.Hour)
				require.Equal(t, 1, pods.Cache().Len(), "lists bring the changes: %v", pods.Status())
				require.NotNil(t, pods.Status().Reflector.Failure)
			})
		})
	}
}

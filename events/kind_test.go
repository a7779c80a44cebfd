package events_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/events"
)

// Objects without a UID, such as ones that could not be created, may have the same name if their kinds differ.
func TestEventsOfTwoKindsAreNotOneSeries(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		recorder := events.New(e.Client, "example.com/test", events.Options{Instance: "me"})
		e.Start(recorder)
		meta := metav1.ObjectMeta{Namespace: "shop", Name: "web"}
		recorder.Recordf(&appsv1.Deployment{ObjectMeta: meta}, "Warning", "CreateFailed", "Create", "quota exceeded")
		recorder.Recordf(&corev1.Service{ObjectMeta: meta}, "Warning", "CreateFailed", "Create", "quota exceeded")
		e.Settle(0)
		var kinds []string
		for _, event := range controllertest.All[*eventsv1.Event](e) {
			kinds = append(kinds, event.Regarding.Kind)
		}
		require.ElementsMatch(t, []string{"Deployment", "Service"}, kinds)
	})
}

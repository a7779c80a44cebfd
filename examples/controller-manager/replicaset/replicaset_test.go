package replicaset

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestLeastMissed(t *testing.T) {
	pod := func(name string, phase corev1.PodPhase, node string, ready, created int64) *corev1.Pod {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Unix(created, 0))},
			Spec:       corev1.PodSpec{NodeName: node},
			Status:     corev1.PodStatus{Phase: phase},
		}
		if ready > 0 {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Unix(ready, 0))}}
		}
		return p
	}
	want := []*corev1.Pod{
		pod("nowhere", corev1.PodPending, "", 0, 1),
		pod("assigned", corev1.PodPending, "n", 0, 1),
		pod("running, young", corev1.PodRunning, "n", 0, 2),
		pod("running, old", corev1.PodRunning, "n", 0, 1),
		pod("ready since 9", corev1.PodRunning, "n", 9, 1),
		pod("ready since 8, young", corev1.PodRunning, "n", 8, 2),
		pod("ready since 8, old", corev1.PodRunning, "n", 8, 1),
	}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortStableFunc(got, leastMissed)
	require.Equal(t, want, got)
}

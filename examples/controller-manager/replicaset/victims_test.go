package replicaset

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestVictims(t *testing.T) {
	pod := func(name string, phase corev1.PodPhase, node string, ready, created int64, change ...func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Unix(created, 0))},
			Spec:       corev1.PodSpec{NodeName: node},
			Status:     corev1.PodStatus{Phase: phase},
		}
		if ready > 0 {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Unix(ready, 0))}}
		}
		for _, f := range change {
			f(p)
		}
		return p
	}
	cost := func(cost string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Annotations = map[string]string{"controller.kubernetes.io/pod-deletion-cost": cost}
		}
	}
	restarted := func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 1}, {RestartCount: 5}, {}}
	}
	want := []*corev1.Pod{
		pod("nowhere, though dear", corev1.PodPending, "", 0, 1, cost("100")),
		pod("assigned", corev1.PodPending, "crowd", 0, 1),
		pod("running, young", corev1.PodRunning, "crowd", 0, 2),
		pod("running, old", corev1.PodRunning, "crowd", 0, 1),
		pod("cheap", corev1.PodRunning, "crowd", 1, 1, cost("-10")),
		pod("in a crowd; no number is 0", corev1.PodRunning, "crowd", 1, 1, cost("much")),
		pod("ready since 9", corev1.PodRunning, "four", 9, 1),
		pod("ready since 8, restarted", corev1.PodRunning, "four", 8, 1, restarted),
		pod("ready since 8, young", corev1.PodRunning, "four", 8, 2),
		pod("ready since 8, old", corev1.PodRunning, "four", 8, 1),
		pod("alone", corev1.PodRunning, "one", 9, 2),
		pod("dear", corev1.PodRunning, "crowd", 9, 1, cost("10")),
		pod("dearer", corev1.PodRunning, "crowd", 9, 1, cost("100")),
	}
	for range 100 {
		got := slices.Clone(want)
		rand.Shuffle(len(got), func(i, j int) { got[i], got[j] = got[j], got[i] })
		require.Equal(t, names(want), names(victims(got)))
	}
}

func names(pods []*corev1.Pod) (names []string) {
	for _, p := range pods {
		names = append(names, p.Name)
	}
	return names
}

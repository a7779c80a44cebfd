package deployment

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestLimits(t *testing.T) {
	percent, number := intstr.FromString, intstr.FromInt
	for _, c := range []struct {
		surge, unavailable         *intstr.IntOrString
		replicas                   int32
		wantSurge, wantUnavailable int32
	}{
		{nil, nil, 10, 3, 2}, // 25 % each, rounded up and down
		{nil, nil, 1, 1, 0},
		{new(percent("0%")), new(percent("10%")), 5, 0, 1}, // both 0: one may go
		{new(number(0)), new(number(0)), 5, 0, 1},
		{new(number(2)), new(percent("50%")), 5, 2, 2},
		{new(percent("100%")), new(number(9)), 5, 5, 5},
		{new(number(0)), new(number(1)), 0, 0, 0},
	} {
		surge, unavailable := limits(&appsv1.RollingUpdateDeployment{MaxSurge: c.surge, MaxUnavailable: c.unavailable}, c.replicas)
		require.Equal(t, []int32{c.wantSurge, c.wantUnavailable}, []int32{surge, unavailable}, "%v %v of %d", c.surge, c.unavailable, c.replicas)
	}
}

func set(name string, revision, replicas, available int32) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Annotations: map[string]string{revisionAnnotation: fmt.Sprint(revision)}},
		Spec:       appsv1.ReplicaSetSpec{Replicas: &replicas, Template: template(name)},
		Status:     appsv1.ReplicaSetStatus{Replicas: replicas, AvailableReplicas: available},
	}
}

func template(image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: image}}}}
}

// TestRollByRandom rolls out with random limits from random states, with Pods that
// come, become available and fail at random, while the statuses lag behind. At no step
// do the targets exceed the limits, or take away Pods that are needed; and when Pods
// do not fail any more, the roll-out comes to its end.
func TestRollByRandom(t *testing.T) {
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 1))
		replicas := random.Int32N(12)
		d := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: &replicas, Template: template("new"), Strategy: appsv1.DeploymentStrategy{
			RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: new(intstr.FromInt32(random.Int32N(4))), MaxUnavailable: new(intstr.FromInt32(random.Int32N(4)))},
		}}}
		sets := []*appsv1.ReplicaSet{set("new", 9, random.Int32N(4), 0)}
		for n := range 1 + random.Int32N(3) {
			rs := set(fmt.Sprint("old", n), n+1, random.Int32N(8), 0)
			rs.Status.AvailableReplicas = random.Int32N(*rs.Spec.Replicas + 1)
			sets = append(sets, rs)
		}
		for step := 0; ; step++ {
			require.Less(t, step, 300, "seed %d: it does not end: %v", seed, show(sets))
			r := newRollout(d, sets)
			before, usable := int32(0), int32(0)
			for _, rs := range sets {
				before += *rs.Spec.Replicas
				usable += available(rs)
			}
			state := show(sets)
			targets := r.step()
			after, left := int32(0), int32(0)
			for _, rs := range sets {
				target := targets[rs.UID]
				require.GreaterOrEqual(t, target, int32(0), "seed %d: %s", seed, state)
				after += target
				rs.Spec.Replicas = &target
				left += available(rs)
			}
			require.LessOrEqual(t, after, max(before, replicas+r.maxSurge), "seed %d: %d wanted: %s to %s", seed, replicas, state, show(sets))
			require.GreaterOrEqual(t, left, min(usable, replicas-r.maxUnavailable), "seed %d: %d wanted: %s to %s", seed, replicas, state, show(sets))
			if r.complete() {
				break
			}
			for _, rs := range sets {
				if random.IntN(3) == 0 {
					continue // its controller is slow
				}
				rs.Status.Replicas = *rs.Spec.Replicas
				rs.Status.AvailableReplicas = min(rs.Status.AvailableReplicas, rs.Status.Replicas)
				if more := rs.Status.Replicas - rs.Status.AvailableReplicas; more > 0 && (step > 50 || random.IntN(2) == 0) {
					rs.Status.AvailableReplicas += 1 + random.Int32N(more)
				} else if step < 50 && rs.Status.AvailableReplicas > 0 && random.IntN(5) == 0 {
					rs.Status.AvailableReplicas--
				}
			}
		}
	}
}

// Recreate begins with new Pods when the old ones are gone, not when they are asked to.
func TestRecreateWaits(t *testing.T) {
	d := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: new(int32(3)), Template: template("new"), Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}}}
	old, current := set("old", 1, 3, 3), set("new", 2, 0, 0)
	step := func() map[types.UID]int32 { return newRollout(d, []*appsv1.ReplicaSet{current, old}).step() }
	require.Equal(t, map[types.UID]int32{"old": 0}, step())
	old.Spec.Replicas = new(int32)
	require.Equal(t, map[types.UID]int32{"old": 0}, step())
	old.Status.Replicas = 0
	require.Equal(t, map[types.UID]int32{"old": 0, "new": 3}, step())
}

func show(sets []*appsv1.ReplicaSet) string {
	s := ""
	for _, rs := range sets {
		s += fmt.Sprintf(" %s: %d of %d,", rs.Name, rs.Status.AvailableReplicas, *rs.Spec.Replicas)
	}
	return s
}

func TestRevision(t *testing.T) {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"kubernetes.io/change-cause": "why", revisionAnnotation: "7", desiredAnnotation: "7", maxAnnotation: "7", lastApplied: "{}"}}}
	rs := &appsv1.ReplicaSet{}
	require.True(t, describe(rs, d, 1))
	require.Equal(t, map[string]string{revisionAnnotation: "1", "kubernetes.io/change-cause": "why"}, rs.Annotations)
	require.False(t, describe(rs, d, 1))
	require.True(t, describe(rs, d, 3))
	require.True(t, describe(rs, d, 5))
	require.Equal(t, "5", rs.Annotations[revisionAnnotation])
	require.Equal(t, "1,3", rs.Annotations[historyAnnotation])
}

func TestTemplateHash(t *testing.T) {
	one, two := template("one"), template("two")
	require.Equal(t, templateHash(&one, 0), templateHash(one.DeepCopy(), 0))
	require.NotEqual(t, templateHash(&one, 0), templateHash(&two, 0))
	require.NotEqual(t, templateHash(&one, 0), templateHash(&one, 1))
	labelled := one.DeepCopy()
	labelled.Labels = map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: "x"}
	require.True(t, sameTemplate(&one, labelled))
	require.False(t, sameTemplate(&one, &two))
}

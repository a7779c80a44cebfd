package deployment

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// sized is a rollout of ReplicaSets that were sized for a Deployment of some size, which
// asks for another one by now.
func sized(from, to, surge int32, sets ...*appsv1.ReplicaSet) *rollout {
	for _, rs := range sets {
		rs.Annotations[desiredAnnotation], rs.Annotations[maxAnnotation] = fmt.Sprint(from), fmt.Sprint(from+surge)
	}
	return newRollout(&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: &to, Template: template("new"), Strategy: appsv1.DeploymentStrategy{
		RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: new(intstr.FromInt32(surge)), MaxUnavailable: new(intstr.FromInt(2))},
	}}}, sets)
}

func TestResize(t *testing.T) {
	for name, c := range map[string]struct {
		r    *rollout
		want map[types.UID]int32
	}{
		// The example of the documentation of Kubernetes.
		"in proportion":                  {sized(10, 15, 3, set("old", 1, 8, 8), set("new", 2, 5, 0)), map[types.UID]int32{"old": 11, "new": 7}},
		"and back":                       {sized(15, 10, 3, set("old", 1, 11, 8), set("new", 2, 7, 0)), map[types.UID]int32{"old": 8, "new": 5}},
		"the largest takes what is left": {sized(4, 5, 0, set("old", 1, 2, 2), set("older", 0, 1, 1), set("new", 2, 1, 1)), map[types.UID]int32{"old": 3, "older": 1, "new": 1}},
		"one alone":                      {sized(3, 9, 3, set("old", 1, 3, 3), set("new", 2, 0, 0)), map[types.UID]int32{"old": 9}},
		"none yet":                       {sized(0, 9, 3, set("old", 1, 0, 0), set("new", 2, 0, 0)), map[types.UID]int32{"new": 9}},
		"to nothing":                     {sized(10, 0, 3, set("old", 1, 8, 8), set("new", 2, 5, 5)), map[types.UID]int32{"old": 0, "new": 0}},
		"the same":                       {sized(10, 10, 3, set("old", 1, 8, 8), set("new", 2, 4, 4)), nil},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, c.r.resize()) })
	}
	foreign := sized(10, 15, 3, set("old", 1, 8, 8), set("new", 2, 5, 0))
	for _, rs := range foreign.all() {
		delete(rs.Annotations, desiredAnnotation)
	}
	require.False(t, foreign.resized(), "nobody has said for what they were sized")
	recreate := sized(10, 15, 3, set("old", 1, 8, 8), set("new", 2, 5, 0))
	recreate.deployment.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
	require.False(t, recreate.resized())
}

// TestSpreadByRandom: all that there may be is given away, nobody loses where there is
// more and nobody wins where there is less, and but for what the largest one has to make
// good each gets its share to the next whole Pod.
func TestSpreadByRandom(t *testing.T) {
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 1))
		var sets []*appsv1.ReplicaSet
		total, largest := int32(0), int32(0)
		for n := range 2 + random.Int32N(4) {
			size := 1 + random.Int32N(20)
			sets = append(sets, set(fmt.Sprint("old", n), n+1, size, 0))
			total, largest = total+size, max(largest, size)
		}
		surge := random.Int32N(min(total, 5))
		r := sized(total-surge, random.Int32N(80), surge, sets...)
		targets := r.spread(r.active())
		after := int32(0)
		for _, rs := range sets {
			target := targets[rs.UID]
			after += target
			if r.most() > total {
				require.GreaterOrEqual(t, target, wanted(rs), "seed %d:%s %v", seed, show(sets), targets)
			} else {
				require.LessOrEqual(t, target, wanted(rs), "seed %d:%s %v", seed, show(sets), targets)
			}
			if wanted(rs) != largest {
				require.InDelta(t, float64(wanted(rs))*float64(r.most())/float64(total), target, float64(len(sets))/2, "seed %d:%s %v", seed, show(sets), targets)
			}
		}
		require.Equal(t, r.most(), after, "seed %d:%s %v", seed, show(sets), targets)
	}
}

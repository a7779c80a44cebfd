package wire

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Pods of several shapes with one controller, such as the head and the workers of a RayCluster,
// find siblings of their shape in any order.
func TestSiblingsOfSeveralShapes(t *testing.T) {
	SkipUnderRace(t)
	random := rand.New(rand.NewPCG(1, 2))
	pod := func(shape, n int) *corev1.Pod {
		own := rand.New(rand.NewPCG(uint64(shape), 1))
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p-%d-%d", shape, n), Namespace: "ns", UID: types.UID(fmt.Sprintf("%016x-%016x", random.Uint64(), random.Uint64())),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "ray.io/v1", Kind: "RayCluster", Name: "r", UID: "controller", Controller: new(true)}}}}
		for c := range 3 {
			k := corev1.Container{Name: fmt.Sprintf("c%d", c), Image: fmt.Sprintf("registry/%x:%x", own.Uint64(), own.Uint64())}
			for e := range 20 {
				k.Env = append(k.Env, corev1.EnvVar{Name: fmt.Sprintf("V%d_%x", e, own.Uint32()), Value: fmt.Sprintf("%x%x", own.Uint64(), own.Uint64())})
			}
			p.Spec.Containers = append(p.Spec.Containers, k)
		}
		return p
	}
	for _, shapes := range []int{1, 2, 8} {
		const n = 800
		average := func(shapeOf func(i int) int) int {
			p, total := NewPacker(nil), 0
			var kept []*Packed
			for i := range n {
				o, err := p.Pack(pod(shapeOf(i), i))
				require.NoError(t, err)
				kept, total = append(kept, o), total+o.Size()
			}
			runtime.KeepAlive(kept)
			return total / n
		}
		sorted, inTurn := average(func(i int) int { return i * shapes / n }), average(func(i int) int { return i % shapes })
		t.Logf("%d shapes: %d bytes each one after the other, %d in turn", shapes, sorted, inTurn)
		require.Less(t, inTurn, 3*sorted/2)
	}
}

package controller_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/object"
)

// A locked patch of the status never overwrites a later write.
func TestALockedPatchOfTheStatus(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		pods := controller.ClientFor[*corev1.Pod](e.Factory)
		e.Start()
		old := controllertest.Put(e, pod("a", func(p *corev1.Pod) { p.Status.Reason = "Because" }))
		write := func(p *corev1.Pod, by string) error {
			_, err := controller.PatchStatusLocked(e.Context(), pods, p, func(p *corev1.Pod) error { p.Status.Message = by; return nil })
			return err
		}
		require.NoError(e, write(old, "the new owner"))
		require.True(e, apierrors.IsConflict(write(old, "the one that was suspended")))
		p := controllertest.Get[*corev1.Pod](e, podA)
		require.Equal(e, "the new owner", p.Status.Message)
		sent := e.Server.Stats().Requests("patch", "pods")
		require.NoError(e, write(p, "the new owner"))
		require.Equal(e, sent, e.Server.Stats().Requests("patch", "pods"), "nothing is sent for nothing")
	})
}

// A field of the status may be required and zero, so the first patch must include it.
func TestTheFirstPatchOfAStatusBringsItsZeroValues(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		sets := controller.ClientFor[*appsv1.ReplicaSet](e.Factory)
		e.Start()
		rs := controllertest.Put(e, &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}})
		patch := func(change func(*appsv1.ReplicaSetStatus)) string {
			before, err := sets.Resource().Get(e.Context(), object.KeyOf(rs), metav1.GetOptions{})
			require.NoError(e, err)
			body, err := controller.StatusPatch(before, func(rs *appsv1.ReplicaSet) error { change(&rs.Status); return nil })
			require.NoError(e, err)
			_, err = sets.Resource().Subresource("status").Patch(e.Context(), object.KeyOf(rs), types.MergePatchType, body, metav1.PatchOptions{})
			require.NoError(e, err)
			return string(body)
		}
		version, err := json.Marshal(rs.ResourceVersion)
		require.NoError(e, err)
		require.JSONEq(e, `{"metadata": {"resourceVersion": `+string(version)+`}, "status": {"replicas": 0, "readyReplicas": 3}}`,
			patch(func(s *appsv1.ReplicaSetStatus) { s.ReadyReplicas = 3 }))
		require.JSONEq(e, `{"status": {"availableReplicas": 2}}`, patch(func(s *appsv1.ReplicaSetStatus) { s.AvailableReplicas = 2 }), "what is zero may be another's by now")

		stale := rs // nothing was set in it
		_, err = controller.PatchStatus(e.Context(), sets, stale, func(rs *appsv1.ReplicaSet) error { rs.Status.ReadyReplicas = 1; return nil })
		require.True(e, apierrors.IsConflict(err), "%v", err)
	})
}

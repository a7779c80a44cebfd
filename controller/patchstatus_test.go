package controller_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controller/controllertest"
	"github.com/millrace-dev/millrace/object"
)

// A field of the status may be required, and be zero: the first patch has to bring it.
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
		_, _, err = controller.PatchStatus(e.Context(), sets, stale, func(rs *appsv1.ReplicaSet) error { rs.Status.ReadyReplicas = 1; return nil })
		require.True(e, apierrors.IsConflict(err), "%v", err)
	})
}

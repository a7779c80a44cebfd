package apiserver_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/test/apiserver"
)

func get(t testing.TB, url, accept string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	require.NoError(t, err)
	req.Header.Set("Accept", accept)
	resp, err := http.DefaultTransport.RoundTrip(req)
	require.NoError(t, err)
	return resp
}

// truth runs a workload for ten minutes of bubble time and gives all pods.
func truth(t *testing.T, seed uint64) (pods []string, faults int) {
	synctest.Test(t, func(t *testing.T) {
		srv := apiserver.New(apiserver.Options{Seed: seed})
		defer srv.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		w := &apiserver.Workload{
			Server: srv, Seed: seed, Pods: 20, Rate: 10,
			FaultEvery: time.Minute, OnFault: func(string) { faults++ },
		}
		require.NoError(t, w.Run(ctx))
		phases := map[corev1.PodPhase]int{}
		for _, obj := range srv.Objects(corev1.SchemeGroupVersion.WithResource("pods")) {
			p := obj.(*corev1.Pod)
			phases[p.Status.Phase]++
			pods = append(pods, p.Name+"@"+p.ResourceVersion+" "+string(p.UID)+" "+p.Spec.NodeName)
		}
		require.NotZero(t, phases[corev1.PodRunning])
	})
	return pods, faults
}

func TestWorkloadFollowsItsSeed(t *testing.T) {
	first, faults := truth(t, 1)
	again, _ := truth(t, 1)
	other, _ := truth(t, 2)
	require.Equal(t, first, again)
	require.NotEqual(t, first, other)
	require.InDelta(t, 20, len(first), 2)
	require.InDelta(t, 10, faults, 5)
}

//go:build !race

package cost

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/debugtest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/wire"
)

// An object larger than all others is read alone, and one that cannot be decoded is reported. With
// the race detector that takes ten times as long.
func TestCostReadsHugeObjects(t *testing.T) {
	srv, server := debugtest.Cluster(t, apiservertest.Options{})
	for i := range 30 {
		_, err := srv.Put(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("c%04d", i)}})
		require.NoError(t, err)
	}
	huge := func(bytes int) {
		_, err := srv.Put(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "c0011"}, Data: map[string]string{"a": strings.Repeat("x", bytes)}})
		require.NoError(t, err)
	}
	huge(10 << 20)
	costs, r := costOf(t, "configmaps", "--sample=30", server)
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	require.Equal(t, 30, costs.Types[0].Sample)
	require.Greater(t, costs.Types[0].ClientGo.Bytes, int64(10<<20))
	huge(20 << 20)
	costs, r = costOf(t, "configmaps", "--sample=30", server)
	require.Contains(t, costs.Types[0].Error+costs.Types[0].Short, wire.ErrTooLarge.Error(), r.Out)
	huge(40 << 20)
	costs, r = costOf(t, "configmaps", "--sample=30", server)
	require.Contains(t, costs.Types[0].Error+costs.Types[0].Short, "MiB of 32.0 MiB", r.Out)
}

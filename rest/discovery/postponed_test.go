package discovery

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace-dev/millrace/source"
)

// A caller that finds its kind in the other documents does not wait, and the next run
// honors the remaining wait.
func TestMapperKeepsTheWaitOfADocument(t *testing.T) {
	for _, path := range []string{coreRoot, "/apis/apps/v1"} {
		synctest.Test(t, func(t *testing.T) {
			server := newFakeServer()
			server.classic[groupsRoot] = true
			server.fail[path] = apierrors.NewTooManyRequests("slow down", 40)
			m := NewMapper(server.get, nil)
			_, err := m.MappingForKind(t.Context(), gizmoKind)
			require.Error(t, err)
			require.Equal(t, 1, server.count(path))

			time.Sleep(30500 * time.Millisecond)
			server.groups = append(server.groups, gizmoGroup)
			_, err = m.MappingForKind(t.Context(), gizmoKind)
			require.NoError(t, err)
			require.Equal(t, 1, server.count(path), "it was to wait for 40s")

			_, err = m.Mappings(t.Context())
			require.ErrorContains(t, err, "slow down")
			require.True(t, apierrors.IsTooManyRequests(err))
			wait, asked := source.RetryAfter(err)
			require.True(t, asked)
			require.Equal(t, 10*time.Second, wait, "what is left")

			time.Sleep(wait)
			delete(server.fail, path)
			m.Invalidate()
			_, err = m.Mappings(t.Context())
			require.NoError(t, err)
			require.Equal(t, 2, server.count(path))
		})
	}
}

// A proxy's response may ask for a wait of a day.
func TestMapperBoundsTheWaitOfADocument(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newFakeServer()
		server.fail[coreRoot] = apierrors.NewTooManyRequests("tomorrow", 86400)
		m := NewMapper(server.get, nil)
		_, err := m.Mappings(t.Context())
		require.Error(t, err)
		time.Sleep(source.MaxRetryAfter)
		m.Invalidate()
		_, err = m.Mappings(t.Context())
		require.Error(t, err)
		require.Equal(t, 2, server.count(coreRoot))
	})
}

package controller_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/shard"
)

// incomparable is a share on which == panics.
type incomparable struct {
	shard.Share
	_ []int
}

func TestSharingALateClient(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		first, second := shard.Ordinal(0, 2), shard.Ordinal(1, 2)
		byUID := func(s shard.Share) shard.Scope { return shard.Scope{Key: shard.ByUID(), Share: s} }
		late := func(s shard.Scope) *controller.Client[*corev1.Pod] {
			return controller.LateClient(e.Factory, factory.For[*corev1.Pod]{Scope: factory.Scope{Shard: s}})
		}
		c := late(shard.Scope{})
		require.ErrorContains(t, c.Shard(byUID(incomparable{Share: first})), "is not comparable")
		require.ErrorContains(t, c.Shard(byUID(incomparable{Share: first})), "is not comparable")
		require.NoError(t, c.Shard(byUID(first)))
		require.NoError(t, c.Shard(byUID(first)))
		require.ErrorContains(t, c.Shard(byUID(incomparable{Share: first})), "is not comparable")
		require.ErrorContains(t, c.Shard(byUID(second)), "is sharded")
		require.Equal(t, byUID(first), c.Informer().Scope())

		c = late(shard.Scope{Key: shard.ByNamespace(), Share: first})
		require.ErrorContains(t, c.Shard(byUID(first)), "is sharded by namespace and cannot also be sharded by uid")
		require.Equal(t, "namespace", c.Informer().Scope().Key.String())
		c = late(byUID(first))
		require.NoError(t, c.Shard(byUID(first)))
		require.NoError(t, c.Shard(byUID(first)), "the share it was made with")
		c = late(byUID(incomparable{Share: first}))
		require.ErrorContains(t, c.Shard(byUID(incomparable{Share: first})), "is not comparable")
		require.ErrorContains(t, c.Shard(byUID(second)), "is not comparable")
	})
}

package shard

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/object"
)

func TestSlots(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		total := 1 + random.IntN(200)
		var some []int
		for slot := range total {
			if random.IntN(3) > 0 {
				some = append(some, slot)
			}
		}
		s := NewSlots(total, some...)
		require.Equal(t, len(some), s.Len())
		read, err := ParseSlots(s.String(), total)
		require.NoError(t, err)
		require.True(t, s.Equal(read), s.String())
		rest := AllSlots(total).Without(s)
		require.Equal(t, total-len(some), rest.Len())
		require.True(t, rest.Union(s).Equal(AllSlots(total)))

		// The ranges are the hashes of the slots, no more and no less.
		for range 50 {
			hash, in := random.Uint64(), false
			for _, r := range s.Ranges() {
				in = in || hash >= r.First && hash <= r.Last
			}
			require.Equal(t, s.HasHash(hash), in)
		}
		for _, r := range s.Ranges() {
			require.True(t, s.HasHash(r.First) && s.HasHash(r.Last))
			require.False(t, r.First > 0 && s.HasHash(r.First-1) || r.Last < math.MaxUint64 && s.HasHash(r.Last+1))
		}
	}
	require.Equal(t, "0-1,3", NewSlots(4, 3, 0, 1).String())
	require.Equal(t, []Range{{0, math.MaxUint64}}, AllSlots(3).Ranges())
	require.Zero(t, Slots{}.Len())
	require.False(t, Slots{}.HasHash(7))
	require.Panics(t, func() { NewSlots(4, 4) })
	for _, text := range []string{"4", "-1", "2-1", "x", "1,", "1-2-3", "0-4", "99999999999999"} {
		_, err := ParseSlots(text, 4)
		require.ErrorContains(t, err, "is not an ordered set of slots of 4", text)
	}
}

// The hash is the one by which API servers select; see KEP-5866.
func TestHash(t *testing.T) {
	require.Equal(t, uint64(0xcbf29ce484222325), Hash(""))
	require.Equal(t, uint64(0xaf63dc4c8601ec8c), Hash("a"))
	require.Equal(t, uint64(0x85944171f73967e8), Hash("foobar"))
}

func TestKeys(t *testing.T) {
	owner := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", UID: "u1", Labels: map[string]string{"team": "a"}}}
	child := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", UID: "u2", Labels: map[string]string{"team": "b"},
		OwnerReferences: []metav1.OwnerReference{{UID: "u0"}, {UID: types.UID("u1"), Controller: new(true)}}}}
	require.NotEqual(t, ByUID().Hash(owner), ByUID().Hash(child))
	require.Equal(t, ByUID().Hash(owner), ByOwner().Hash(child), "where its owner is")
	require.Equal(t, ByUID().Hash(owner), ByOwner().Hash(owner))
	require.Equal(t, ByNamespace().Hash(owner), ByNamespace().Hash(child))
	require.Equal(t, Key{}.Hash(owner), ByUID().Hash(owner))
	require.NotEqual(t, ByLabel("team").Hash(owner), ByLabel("team").Hash(child))
	require.Equal(t, "label team", ByLabel("team").String())

	// Texts that differ in their last letter are spread over the slots.
	used := map[int]bool{}
	for n := range 10 {
		o := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"team": string(rune('0' + n))}}}
		used[SlotOf(ByLabel("team").Hash(o), 1024)] = true
	}
	require.Greater(t, len(used), 8)
}

// Only some keys keep an object where its owner is.
func TestKeysThatFollow(t *testing.T) {
	text := func(object.Head) string { return "" }
	keys := []Key{ByUID(), ByNamespace(), ByOwner(), ByLabel("team"), ByLabel("app"), ByFunc("f", text)}
	follows := map[[2]string]bool{
		{"controller owner", "uid"}: true, {"namespace", "namespace"}: true, {"label team", "label team"}: true,
		{"label app", "label app"}: true, {"function f", "function f"}: true,
	}
	for _, k := range keys {
		for _, owner := range keys {
			require.Equal(t, follows[[2]string{k.String(), owner.String()}], k.Follows(owner) == nil, "%s after %s", k, owner)
		}
	}
}

package sharedinformer

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestFirstDifference(t *testing.T) {
	base := func() *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Name: "a", Labels: map[string]string{"x": "1", "y": "2"}, Finalizers: []string{"f"},
			OwnerReferences: []metav1.OwnerReference{{Name: "o"}, {Name: "p"}},
		}}
	}
	cases := map[string]func(*metav1.PartialObjectMetadata){
		"":                                    func(*metav1.PartialObjectMetadata) {},
		".ObjectMeta.Name":                    func(o *metav1.PartialObjectMetadata) { o.Name = "b" },
		".ObjectMeta.Labels[y]":               func(o *metav1.PartialObjectMetadata) { o.Labels["y"] = "3" },
		".ObjectMeta.Labels[z]":               func(o *metav1.PartialObjectMetadata) { o.Labels["z"] = "3" },
		".ObjectMeta.OwnerReferences[1].Name": func(o *metav1.PartialObjectMetadata) { o.OwnerReferences[1].Name = "q" },
		".ObjectMeta.Finalizers":              func(o *metav1.PartialObjectMetadata) { o.Finalizers = nil },
		".ObjectMeta.DeletionTimestamp":       func(o *metav1.PartialObjectMetadata) { o.DeletionTimestamp = &metav1.Time{} },
	}
	for want, alter := range cases {
		o := base()
		alter(o)
		d, differ := firstDifference(base(), o)
		require.Equal(t, want != "", differ, want)
		if differ {
			require.Equal(t, want, d.path)
		}
	}
	d, differ := firstDifference(map[string]any{"a": []any{int64(1)}}, map[string]any{"a": []any{int64(2)}})
	require.True(t, differ)
	require.Equal(t, "[a][0]", d.path)
}

// A difference has the address of the changed part, which is equal in all values that share the
// part, and in no others.
func TestDifferenceNamesThePart(t *testing.T) {
	labels, owners, controller := map[string]string{"x": "1"}, []metav1.OwnerReference{{Name: "o"}}, false
	owners[0].Controller = &controller
	sharing := func() *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Labels: labels, OwnerReferences: owners}}
	}
	for name, c := range map[string]struct {
		alter  func(*metav1.PartialObjectMetadata)
		shared bool
	}{
		"a map":              {func(o *metav1.PartialObjectMetadata) { o.Labels["x"] = "2" }, true},
		"an entry of a map":  {func(o *metav1.PartialObjectMetadata) { o.Labels["y"] = "2" }, true},
		"an element":         {func(o *metav1.PartialObjectMetadata) { o.OwnerReferences[0].Name = "p" }, true},
		"a pointer's target": {func(o *metav1.PartialObjectMetadata) { *o.OwnerReferences[0].Controller = true }, true},
		"the object itself":  {func(o *metav1.PartialObjectMetadata) { o.Name = "n" }, false},
		"a slice's length":   {func(o *metav1.PartialObjectMetadata) { o.OwnerReferences = nil }, false},
	} {
		one, other := sharing(), sharing()
		before, beforeOther := one.DeepCopy(), other.DeepCopy()
		c.alter(one)
		d, differ := firstDifference(before, one)
		require.True(t, differ, name)
		dOther, differ := firstDifference(beforeOther, other)
		require.Equal(t, c.shared, differ, name)
		require.Equal(t, c.shared, d.part == dOther.part, name)
		require.NotZero(t, d.part, name)
		labels, owners, controller = map[string]string{"x": "1"}, []metav1.OwnerReference{{Name: "o", Controller: &controller}}, false
	}
}

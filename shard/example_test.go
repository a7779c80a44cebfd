package shard_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/shard"
)

// Owned objects are in the slot of their owner, so one process has both.
func Example() {
	owner := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", UID: "6d1b"}}
	owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "web-0-log", UID: "90ff", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "Pod", Name: "web-0", UID: "6d1b", Controller: new(true)},
	}}}
	const slots = 1024
	of := shard.SlotOf(shard.ByUID().Hash(owner), slots)
	fmt.Println(of == shard.SlotOf(shard.ByOwner().Hash(owned), slots))

	ours := shard.NewSlots(8, 0, 1, 2, 5)
	theirs := shard.AllSlots(8).Without(ours)
	fmt.Println(ours.Len(), ours.Has(5), theirs.All())
	// Output:
	// true
	// 4 true [3 4 6 7]
}

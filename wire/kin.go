package wire

import (
	"hash/maphash"
	"maps"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"weak"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/object"
)

// kins are what objects of a packer have in common. Each is there as long as an object has
// it.
type kins struct {
	mu   sync.Mutex // guards all
	seed maphash.Seed
	all  map[uint64]weak.Pointer[kin]
}

// of returns the kin of o.
func (k *kins) of(f *layout, o object.Head) *kin {
	namespace, labels, owners, deleted := o.GetNamespace(), o.GetLabels(), o.GetOwnerReferences(), o.GetDeletionTimestamp()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all == nil {
		k.seed, k.all = maphash.MakeSeed(), make(map[uint64]weak.Pointer[kin])
	}
	hash := k.hash(f, namespace, labels, owners)
	if deleted != nil {
		hash += uint64(deleted.Unix())
	}
	if have := k.all[hash].Value(); have != nil && have.layout == f && have.namespace == namespace &&
		maps.Equal(have.labels, labels) && (labels == nil) == (have.labels == nil) && reflect.DeepEqual(have.owners, owners) && reflect.DeepEqual(have.deleted, deleted) {
		return have
	}
	made := &kin{layout: f, namespace: strings.Clone(namespace), labels: cloneLabels(labels), owners: cloneOwners(owners), deleted: deleted.DeepCopy()}
	if controller := metav1.GetControllerOfNoCopy(&metav1.ObjectMeta{OwnerReferences: made.owners}); controller != nil {
		made.group = string(controller.UID)
	}
	at := weak.Make(made)
	k.all[hash] = at
	runtime.AddCleanup(made, k.forget, bygoneKin{hash, at})
	return made
}

// wholeKin is the kin of an object that is kept as it is.
func wholeKin(f *layout, o object.Object) *kin {
	return &kin{layout: f, namespace: o.GetNamespace(), labels: o.GetLabels(), owners: o.GetOwnerReferences(), deleted: o.GetDeletionTimestamp(), whole: o}
}

// bygoneKin is a kin that no object has any more.
type bygoneKin struct {
	hash uint64
	kin  weak.Pointer[kin]
}

func (k *kins) forget(b bygoneKin) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all[b.hash] == b.kin {
		delete(k.all, b.hash)
	}
}

// hash does not depend on the order of the labels.
func (k *kins) hash(f *layout, namespace string, labels map[string]string, owners []metav1.OwnerReference) uint64 {
	sum := maphash.Comparable(k.seed, f) ^ maphash.String(k.seed, namespace)
	for key, value := range labels {
		sum += maphash.Comparable(k.seed, [2]string{key, value})
	}
	for i := range owners {
		sum = sum*31 + maphash.String(k.seed, string(owners[i].UID))
	}
	return sum
}

// cloneLabels returns labels that hold nothing of the object that they come from.
func cloneLabels(labels map[string]string) map[string]string {
	if labels == nil {
		return nil
	}
	clone := make(map[string]string, len(labels))
	for key, value := range labels {
		clone[strings.Clone(key)] = strings.Clone(value)
	}
	return clone
}

// cloneOwners is cloneLabels for owners.
func cloneOwners(owners []metav1.OwnerReference) []metav1.OwnerReference {
	if owners == nil {
		return nil
	}
	clone := make([]metav1.OwnerReference, len(owners))
	for i := range owners {
		o := *owners[i].DeepCopy()
		o.APIVersion, o.Kind, o.Name, o.UID = strings.Clone(o.APIVersion), strings.Clone(o.Kind), strings.Clone(o.Name), types.UID(strings.Clone(string(o.UID)))
		clone[i] = o
	}
	return clone
}

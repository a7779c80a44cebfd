package wire

import (
	"hash/maphash"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"weak"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire/internal/head"
)

// kins are what objects of a packer have in common. Each is there as long as an object has
// it. They are apart from the packer: what waits for the end of a kin keeps them, and must
// not keep what reaches the kin.
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
	hash := k.hash(f, namespace, owners, deleted)
	for key, value := range labels {
		hash += k.hashLabel(key, value)
	}
	if have := k.all[hash].Value(); have != nil && have.layout == f && have.namespace == namespace &&
		maps.Equal(have.labels, labels) && (labels == nil) == (have.labels == nil) && reflect.DeepEqual(have.owners, owners) && reflect.DeepEqual(have.deleted, deleted) {
		return have
	}
	return k.add(hash, &kin{layout: f, namespace: strings.Clone(namespace), labels: cloneLabels(labels), owners: cloneOwners(owners), deleted: deleted.DeepCopy()})
}

// ofHead returns the kin of the object with the head h.
func (k *kins) ofHead(f *layout, h *head.Head) *kin {
	k.mu.Lock()
	defer k.mu.Unlock()
	hash := k.hash(f, h.Namespace, h.Owners, h.Deleted)
	for _, l := range h.Labels {
		hash += k.hashLabel(l.Key, l.Value)
	}
	if have := k.all[hash].Value(); have != nil && have.layout == f && have.has(h) {
		return have
	}
	made := &kin{layout: f, namespace: strings.Clone(h.Namespace), deleted: h.Deleted.DeepCopy()}
	if h.HasLabels {
		made.labels = make(map[string]string, len(h.Labels))
		for _, l := range h.Labels {
			made.labels[strings.Clone(l.Key)] = strings.Clone(l.Value)
		}
	}
	if h.HasOwners {
		made.owners = slices.Clip(append([]metav1.OwnerReference{}, cloneOwners(h.Owners)...))
	}
	return k.add(hash, made)
}

// has reports whether the object with the head h has all this.
func (k *kin) has(h *head.Head) bool {
	if k.namespace != h.Namespace || (k.labels != nil) != h.HasLabels || len(k.labels) != len(h.Labels) ||
		(k.owners != nil) != h.HasOwners || len(k.owners) != len(h.Owners) || !k.deleted.Equal(h.Deleted) {
		return false
	}
	for _, l := range h.Labels {
		if value, ok := k.labels[l.Key]; !ok || value != l.Value {
			return false
		}
	}
	for i := range k.owners {
		if !sameOwner(&k.owners[i], &h.Owners[i]) {
			return false
		}
	}
	return true
}

func sameOwner(a, b *metav1.OwnerReference) bool {
	return a.UID == b.UID && a.Name == b.Name && a.Kind == b.Kind && a.APIVersion == b.APIVersion &&
		sameFlag(a.Controller, b.Controller) && sameFlag(a.BlockOwnerDeletion, b.BlockOwnerDeletion)
}

func sameFlag(a, b *bool) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// add makes a kin known. It is called under mu.
func (k *kins) add(hash uint64, made *kin) *kin {
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

// hash is a hash of all but the labels, for each of which hashLabel is added, in any order.
// It is called under mu.
func (k *kins) hash(f *layout, namespace string, owners []metav1.OwnerReference, deleted *metav1.Time) uint64 {
	if k.all == nil {
		k.seed, k.all = maphash.MakeSeed(), make(map[uint64]weak.Pointer[kin])
	}
	sum := maphash.Comparable(k.seed, f) ^ maphash.String(k.seed, namespace)
	for i := range owners {
		sum = sum*31 + maphash.String(k.seed, string(owners[i].UID))
	}
	if deleted != nil {
		sum += uint64(deleted.Unix())
	}
	return sum
}

func (k *kins) hashLabel(key, value string) uint64 {
	return (maphash.String(k.seed, key) | 1) * maphash.String(k.seed, value)
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

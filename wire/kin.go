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
	"github.com/millrace-dev/millrace/wire/internal/head"
	"github.com/millrace-dev/millrace/wire/internal/weight"
)

// kins are what objects of a packer have in common. Each is there as long as an object has
// it. They are apart from the packer: what waits for the end of a kin keeps them, and must
// not keep what reaches the kin.
type kins struct {
	mu   sync.Mutex // guards all
	seed maphash.Seed
	all  map[uint64]weak.Pointer[kin]
}

// of returns the kin of the object with the head h.
func (k *kins) of(f *layout, h *head.Head) *kin {
	k.mu.Lock()
	defer k.mu.Unlock()
	hash := k.hash(f, h)
	if have := k.all[hash].Value(); have != nil && have.layout == f && have.has(h) {
		return have
	}
	made := newKin(f, h)
	at := weak.Make(made)
	k.all[hash] = at
	runtime.AddCleanup(made, k.forget, bygoneKin{hash, at})
	return made
}

// newKin returns a kin for the object with the head h. It keeps no memory of h.
func newKin(f *layout, h *head.Head) *kin {
	k := &kin{layout: f, first: strings.Clone(h.Name), namespace: strings.Clone(h.Namespace), deleted: h.Deleted.DeepCopy()}
	if h.HasLabels {
		k.labels = make(map[string]string, len(h.Labels))
	}
	for _, l := range h.Labels {
		if from := originOf(l.Value, h.Name); from != given {
			k.named = append(k.named, namedLabel{strings.Clone(l.Key), from})
		} else {
			k.labels[strings.Clone(l.Key)] = strings.Clone(l.Value)
		}
	}
	if h.HasOwners {
		k.owners = make([]metav1.OwnerReference, len(h.Owners))
	}
	for i := range h.Owners {
		o := *h.Owners[i].DeepCopy()
		o.APIVersion, o.Kind, o.Name, o.UID = strings.Clone(o.APIVersion), strings.Clone(o.Kind), strings.Clone(o.Name), types.UID(strings.Clone(string(o.UID)))
		k.owners[i] = o
	}
	if controller := metav1.GetControllerOfNoCopy(&metav1.ObjectMeta{OwnerReferences: k.owners}); controller != nil {
		k.group = string(controller.UID)
	}
	return k
}

// headOf returns the part of the head of o that a kin is made of.
func headOf(o object.Head) *head.Head {
	labels, owners := o.GetLabels(), o.GetOwnerReferences()
	h := &head.Head{Namespace: o.GetNamespace(), Name: o.GetName(), Owners: owners, Deleted: o.GetDeletionTimestamp(), HasLabels: labels != nil, HasOwners: owners != nil}
	for key, value := range labels {
		h.Labels = append(h.Labels, head.Label{Key: key, Value: value})
	}
	return h
}

// has reports whether the object with the head h has all this.
func (k *kin) has(h *head.Head) bool {
	if k.namespace != h.Namespace || (k.labels != nil) != h.HasLabels || len(k.labels)+len(k.named) != len(h.Labels) ||
		(k.owners != nil) != h.HasOwners || len(k.owners) != len(h.Owners) || !k.deleted.Equal(h.Deleted) {
		return false
	}
	for _, l := range h.Labels {
		if value, ok := k.label(l.Key, h.Name); !ok || value != l.Value {
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

// hash returns a hash that does not depend on the order of labels. It is called under mu.
func (k *kins) hash(f *layout, h *head.Head) uint64 {
	if k.all == nil {
		k.seed, k.all = maphash.MakeSeed(), make(map[uint64]weak.Pointer[kin])
	}
	sum := maphash.Comparable(k.seed, f) ^ maphash.String(k.seed, h.Namespace)
	for i := range h.Owners {
		sum = sum*31 + maphash.String(k.seed, string(h.Owners[i].UID))
	}
	if h.Deleted != nil {
		sum += uint64(h.Deleted.Unix())
	}
	for _, l := range h.Labels {
		value := uint64(originOf(l.Value, h.Name))
		if value == uint64(given) {
			value = maphash.String(k.seed, l.Value)
		}
		sum += (maphash.String(k.seed, l.Key) | 1) * value
	}
	return sum
}

// namedLabel is a label whose value comes from the name of its object, such as the name and the index of a Pod
// in the labels of a StatefulSet. Siblings have it in common although their values differ.
type namedLabel struct {
	key  string
	from origin
}

// origin says where the value of a label comes from.
type origin uint8

const (
	given     origin = iota
	wholeName        // it is the name of the object
	endOfName        // it is the part of the name behind the last dash
)

// originOf returns where a value comes from in an object of that name.
func originOf(value, name string) origin {
	switch value {
	case wholeName.of(name):
		return wholeName
	case endOfName.of(name):
		return endOfName
	}
	return given
}

// of returns the value in an object of that name.
func (from origin) of(name string) string {
	if from == endOfName {
		return name[strings.LastIndexByte(name, '-')+1:]
	}
	return name
}

// label returns a label of an object of that name.
func (k *kin) label(key, name string) (value string, ok bool) {
	for i := range k.named {
		if k.named[i].key == key {
			return k.named[i].from.of(name), true
		}
	}
	value, ok = k.labels[key]
	return value, ok
}

// allLabels returns the labels of an object of that name.
func (k *kin) allLabels(name string) map[string]string {
	if len(k.named) == 0 {
		return k.labels
	}
	all := make(map[string]string, len(k.labels)+len(k.named))
	maps.Copy(all, k.labels)
	for _, l := range k.named {
		all[l.key] = l.from.of(name)
	}
	return all
}

// held returns how many bytes of memory the kin takes.
func (k *kin) held() int {
	size := kinSize + len(k.first) + len(k.namespace)
	if k.labels != nil {
		size += int(labelEntries.Of(len(k.labels)))
	}
	for key, value := range k.labels {
		size += len(key) + len(value)
	}
	for _, l := range k.named {
		size += namedSize + len(l.key)
	}
	for i := range k.owners {
		o := &k.owners[i]
		size += ownerSize + len(o.APIVersion) + len(o.Kind) + len(o.Name) + len(o.UID)
	}
	return size
}

// Sizes without the memory that a value refers to. That of a kin is with its entry in the table, and with the
// cleanup that removes the entry.
var (
	kinSize      = sizeOf[kin]() + 150
	namedSize    = sizeOf[namedLabel]()
	ownerSize    = sizeOf[metav1.OwnerReference]()
	labelEntries = weight.OfEntries(reflect.TypeFor[string](), reflect.TypeFor[string]())
)

func sizeOf[T any]() int { return int(reflect.TypeFor[T]().Size()) }

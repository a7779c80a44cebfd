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
	"github.com/millrace-dev/millrace/wire/internal/guard"
	"github.com/millrace-dev/millrace/wire/internal/head"
)

// sharedMeta is metadata that many objects have in common, usually because they are Pods with the
// same controller.
type sharedMeta struct {
	codec     *codec
	namespace string
	labels    map[string]string // without derived ones
	derived   []derivedLabel    // sorted by key
	owners    []metav1.OwnerReference
	deleted   *metav1.Time // when deletion was requested; nil if it has not been
	group     string       // the controller's UID; empty if there is none
	unpacked  any          // the object itself, if it cannot be encoded
	firstName string       // the name of the object for which it was created
}

// metaTable contains one copy of each sharedMeta in a packer, for as long as any object refers to it. It is
// separate from the packer because a sharedMeta's cleanup keeps the table alive, so the sharedMeta must not
// be reachable from the table.
type metaTable struct {
	mu   sync.Mutex // guards all
	seed maphash.Seed
	all  map[uint64]weak.Pointer[sharedMeta]
}

// intern returns the sharedMeta for an object with the head h.
func (t *metaTable) intern(c *codec, h *head.Head) *sharedMeta {
	t.mu.Lock()
	defer t.mu.Unlock()
	hash := t.hash(c, h)
	if have := t.all[hash].Value(); have != nil && have.codec == c && have.matches(h) {
		return have
	}
	made := newSharedMeta(c, h)
	at := weak.Make(made)
	t.all[hash] = at
	runtime.AddCleanup(made, t.forget, deadMeta{hash, at})
	return made
}

// newSharedMeta returns a new sharedMeta for an object with the head h. It does not refer to h's
// memory.
func newSharedMeta(c *codec, h *head.Head) *sharedMeta {
	m := &sharedMeta{codec: c, firstName: strings.Clone(h.Name), namespace: strings.Clone(h.Namespace), deleted: h.Deleted.DeepCopy()}
	if h.HasLabels {
		m.labels = make(map[string]string, len(h.Labels))
	}
	for _, l := range h.Labels {
		if from := labelSourceOf(l.Value, h.Name); from != literal {
			m.derived = append(m.derived, derivedLabel{strings.Clone(l.Key), from})
		} else {
			m.labels[strings.Clone(l.Key)] = strings.Clone(l.Value)
		}
	}
	slices.SortFunc(m.derived, func(a, b derivedLabel) int { return a.compare(b.key) })
	if h.HasOwners {
		m.owners = make([]metav1.OwnerReference, len(h.Owners))
	}
	for i := range h.Owners {
		o := *h.Owners[i].DeepCopy()
		o.APIVersion, o.Kind, o.Name, o.UID = strings.Clone(o.APIVersion), strings.Clone(o.Kind), strings.Clone(o.Name), types.UID(strings.Clone(string(o.UID)))
		m.owners[i] = o
	}
	if controller := metav1.GetControllerOfNoCopy(&metav1.ObjectMeta{OwnerReferences: m.owners}); controller != nil {
		m.group = string(controller.UID)
	}
	return m
}

// headOf returns the fields of o's head that determine its sharedMeta.
func headOf(o object.Head) *head.Head {
	labels, owners := o.GetLabels(), o.GetOwnerReferences()
	h := &head.Head{Owners: owners, Deleted: o.GetDeletionTimestamp(), HasLabels: labels != nil, HasOwners: owners != nil}
	h.Namespace, h.Name = o.GetNamespace(), o.GetName()
	for key, value := range labels {
		h.Labels = append(h.Labels, head.Label{Key: key, Value: value})
	}
	return h
}

// matches reports whether m is the metadata of an object with the head h.
func (m *sharedMeta) matches(h *head.Head) bool {
	if m.namespace != h.Namespace || (m.labels != nil) != h.HasLabels || len(m.labels)+len(m.derived) != len(h.Labels) ||
		(m.owners != nil) != h.HasOwners || len(m.owners) != len(h.Owners) || !m.deleted.Equal(h.Deleted) {
		return false
	}
	for _, l := range h.Labels {
		if value, ok := m.label(l.Key, h.Name); !ok || value != l.Value {
			return false
		}
	}
	for i := range m.owners {
		if !sameOwner(&m.owners[i], &h.Owners[i]) {
			return false
		}
	}
	return true
}

func sameOwner(a, b *metav1.OwnerReference) bool {
	return a.UID == b.UID && a.Name == b.Name && a.Kind == b.Kind && a.APIVersion == b.APIVersion &&
		sameBool(a.Controller, b.Controller) && sameBool(a.BlockOwnerDeletion, b.BlockOwnerDeletion)
}

func sameBool(a, b *bool) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// metaOfUnpacked returns the metadata of an object that is kept whole.
func metaOfUnpacked(c *codec, o object.Object) *sharedMeta {
	return &sharedMeta{codec: c, namespace: o.GetNamespace(), labels: o.GetLabels(), owners: o.GetOwnerReferences(), deleted: o.GetDeletionTimestamp(), unpacked: o}
}

// deadMeta identifies a sharedMeta that has been garbage collected.
type deadMeta struct {
	hash uint64
	meta weak.Pointer[sharedMeta]
}

func (t *metaTable) forget(b deadMeta) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all[b.hash] == b.meta {
		delete(t.all, b.hash)
	}
}

// hash returns a hash that does not depend on the order of the labels. It requires mu.
func (t *metaTable) hash(c *codec, h *head.Head) uint64 {
	if t.all == nil {
		t.seed, t.all = maphash.MakeSeed(), make(map[uint64]weak.Pointer[sharedMeta])
	}
	sum := maphash.Comparable(t.seed, c) ^ maphash.String(t.seed, h.Namespace)
	for i := range h.Owners {
		sum = sum*31 + maphash.String(t.seed, string(h.Owners[i].UID))
	}
	if h.Deleted != nil {
		sum += uint64(h.Deleted.Unix())
	}
	for _, l := range h.Labels {
		value := uint64(labelSourceOf(l.Value, h.Name))
		if value == uint64(literal) {
			value = maphash.String(t.seed, l.Value)
		}
		sum += (maphash.String(t.seed, l.Key) | 1) * value
	}
	return sum
}

// derivedLabel is a label whose value is derived from its object's name, such as the labels with the name
// and the index of a StatefulSet's Pod. This way siblings can share their labels even though these values
// differ.
type derivedLabel struct {
	key  string
	from labelSource
}

func (l derivedLabel) compare(key string) int { return strings.Compare(l.key, key) }

// labelSource is the origin of a label's value.
type labelSource uint8

const (
	literal    labelSource = iota
	fullName               // the object's name
	nameSuffix             // the part of the name after the last dash
)

// labelSourceOf returns the origin of a value in an object with this name.
func labelSourceOf(value, name string) labelSource {
	switch value {
	case fullName.value(name):
		return fullName
	case nameSuffix.value(name):
		return nameSuffix
	}
	return literal
}

// value returns the label's value in an object with this name.
func (from labelSource) value(name string) string {
	if from == nameSuffix {
		return name[strings.LastIndexByte(name, '-')+1:]
	}
	return name
}

// label returns a label of an object with this name.
func (m *sharedMeta) label(key, name string) (value string, ok bool) {
	if at, ok := slices.BinarySearchFunc(m.derived, key, derivedLabel.compare); ok {
		return m.derived[at].from.value(name), true
	}
	value, ok = m.labels[key]
	return value, ok
}

// allLabels returns the labels of an object with this name.
func (m *sharedMeta) allLabels(name string) map[string]string {
	if len(m.derived) == 0 {
		return m.labels
	}
	all := make(map[string]string, len(m.labels)+len(m.derived))
	maps.Copy(all, m.labels)
	for _, l := range m.derived {
		all[l.key] = l.from.value(name)
	}
	return all
}

// memorySize returns m's memory in bytes.
func (m *sharedMeta) memorySize() int {
	size := metaSize + len(m.firstName) + len(m.namespace)
	if m.labels != nil {
		size += int(labelMapBytes.Of(len(m.labels)))
	}
	for key, value := range m.labels {
		size += len(key) + len(value)
	}
	for _, l := range m.derived {
		size += derivedSize + len(l.key)
	}
	for i := range m.owners {
		o := &m.owners[i]
		size += ownerSize + len(o.APIVersion) + len(o.Kind) + len(o.Name) + len(o.UID)
	}
	return size
}

// Sizes, excluding memory that a value refers to. The size of a sharedMeta includes its table entry and the
// cleanup that removes the entry.
var (
	metaSize      = sizeOf[sharedMeta]() + 150
	derivedSize   = sizeOf[derivedLabel]()
	ownerSize     = sizeOf[metav1.OwnerReference]()
	labelMapBytes = guard.MapBytesOf(reflect.TypeFor[string](), reflect.TypeFor[string]())
)

func sizeOf[T any]() int { return int(reflect.TypeFor[T]().Size()) }

package shard

import (
	"fmt"

	"github.com/millrace-dev/millrace/object"
)

// Key decides which member an object belongs to: objects of one text belong to the same.
// It must say the same of an object at all times, and so do ByUID, ByNamespace and, as long as
// nobody changes an owner, ByOwner. The zero value is ByUID.
type Key struct {
	name string
	text func(object.Head) string // nil for the UID

	// stirred says that similar texts are to have unlike hashes. Their first bits, which are
	// the slot, depend little on the last letters. The API server hashes UIDs and namespaces,
	// and so we leave those as they are.
	stirred bool

	fields []string // see Fields
}

// ByUID spreads objects evenly.
func ByUID() Key { return Key{} }

// ByNamespace keeps the objects of a namespace together. It is not for kinds without
// namespaces, which would be in one place all.
func ByNamespace() Key {
	return Key{"namespace", func(o object.Head) string { return o.GetNamespace() }, false, nil}
}

// ByOwner keeps objects where their controller owner is: what is controlled by an object
// of UID u is where ByUID puts that. Objects without a controller are where ByUID puts
// them. It does not look further up than that.
func ByOwner() Key {
	return Key{"controller owner", func(o object.Head) string {
		for _, owner := range o.GetOwnerReferences() {
			if owner.Controller != nil && *owner.Controller {
				return string(owner.UID)
			}
		}
		return string(o.GetUID())
	}, false, []string{"metadata.ownerReferences"}}
}

// ByLabel keeps objects with one value of a label together.
func ByLabel(label string) Key {
	return Key{"label " + label, func(o object.Head) string { return o.GetLabels()[label] }, true, []string{"metadata.labels"}}
}

// ByFunc decides by a text that text returns, which must be quick and not change the
// object. The name tells it from other functions: members whose names differ do not
// share their work.
func ByFunc(name string, text func(object.Head) string) Key {
	if text == nil {
		panic(fmt.Sprintf("shard: ByFunc(%q) without a function", name))
	}
	return Key{"function " + name, text, true, []string{
		"metadata.generation", "metadata.deletionTimestamp", "metadata.labels", "metadata.annotations", "metadata.ownerReferences",
	}}
}

// String names the key.
func (k Key) String() string {
	if k.text == nil {
		return "uid"
	}
	return k.name
}

// Fixed reports whether an object is in the same slot for as long as it lives, whatever
// anybody writes to it.
func (k Key) Fixed() bool { return len(k.fields) == 0 }

// Fields are those of an object that the key reads, besides namespace, name and UID.
func (k Key) Fields() []string { return k.fields }

// Follows reports whether an object under this key is where the owner that controls it is
// under another: so that who has the owner has the object, too. Of labels and functions it
// takes that for true where they have one name.
func (k Key) Follows(owner Key) bool {
	switch k.String() {
	case ByUID().String():
		return false
	case ByOwner().String():
		return owner.String() == ByUID().String()
	}
	return k.String() == owner.String()
}

// Hash returns the hash of an object's text: FNV-1a of 64 bits, as in KEP-5866; what no
// server selects by is stirred besides.
func (k Key) Hash(o object.Head) uint64 {
	switch {
	case k.text == nil:
		return Hash(string(o.GetUID()))
	case k.stirred:
		return Stir(Hash(k.text(o)))
	}
	return Hash(k.text(o))
}

// Hash returns the FNV-1a hash of 64 bits of a text.
func Hash(text string) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * prime
	}
	return h
}

// Stir makes every bit of a hash depend on all of them: the last steps of MurmurHash3.
func Stir(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

package shard

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
)

// Key assigns objects to slots: objects with the same text belong to the same slot. An object's text must
// never change. With [ByUID] and [ByNamespace] it cannot, and with [ByOwner] it changes only if the
// controller reference does. The zero value is ByUID.
type Key struct {
	name string
	text func(object.Head) string // nil for the UID

	// stirred gives similar texts different hashes. The high bits of the hash determine the slot, and they
	// hardly depend on the last bytes of the text. UIDs and namespaces are not stirred, because API servers
	// hash them in the same way.
	stirred bool

	fields []string // see Fields
	user   string   // the function's name for errors, if it is a user's; otherwise empty
}

// ByUID distributes objects evenly.
func ByUID() Key { return Key{} }

// ByNamespace keeps all objects in a namespace together. Do not use it for cluster-scoped kinds, because all
// of their objects would be in the same slot.
func ByNamespace() Key {
	return Key{name: "namespace", text: func(o object.Head) string { return o.GetNamespace() }}
}

// ByOwner keeps objects together with the owner that controls them, in the slot to which [ByUID] assigns
// the owner. An object without a controller is assigned as by ByUID. Only direct owners are considered.
func ByOwner() Key {
	return Key{name: "controller owner", fields: []string{"metadata.ownerReferences"}, text: func(o object.Head) string {
		for _, owner := range o.GetOwnerReferences() {
			if owner.Controller != nil && *owner.Controller {
				return string(owner.UID)
			}
		}
		return string(o.GetUID())
	}}
}

// ByLabel keeps objects with the same label value together. It panics if label is empty.
func ByLabel(label string) Key {
	if label == "" {
		panic("shard: ByLabel without a label")
	}
	return Key{
		name: "label " + label, text: func(o object.Head) string { return object.Labels(o).Get(label) },
		stirred: true, fields: []string{"metadata.labels"},
	}
}

// ByFunc assigns objects by the result of text, which must be fast and must not modify the object. The name
// identifies the function: members that use different names do not share work. ByFunc panics if the
// function or the name is missing.
//
// If the function panics on an object, the informer fails and reports it, because the object's slot
// cannot be determined.
func ByFunc(name string, text func(object.Head) string) Key {
	if text == nil || name == "" {
		panic(fmt.Sprintf("shard: ByFunc(%q) without a function or a name", name))
	}
	return Key{name: "function " + name, text: text, stirred: true, fields: []string{
		"metadata.generation", "metadata.deletionTimestamp", "metadata.labels", "metadata.annotations", "metadata.ownerReferences",
	}, user: fmt.Sprintf("the function of shard.ByFunc(%q) at %s", name, failure.Place(1))}
}

// String returns the key's name.
func (k Key) String() string {
	if k.text == nil {
		return "uid"
	}
	return k.name
}

// Fixed reports whether an object stays in the same slot for its lifetime, regardless of updates.
func (k Key) Fixed() bool { return len(k.fields) == 0 }

// Fields returns the paths of the fields that the key uses, apart from namespace, name and UID.
func (k Key) Fields() []string { return k.fields }

// Follows returns nil if k assigns an object to the same slot to which the key owner assigns its controller,
// so that one process owns both. Otherwise it returns an error that suggests suitable keys. Labels and
// functions with the same name are assumed to match.
func (k Key) Follows(owner Key) error {
	switch name := k.String(); {
	case name == ByOwner().String() && owner.String() == ByUID().String():
		return nil
	case name == owner.String() && name != ByUID().String() && name != ByOwner().String():
		return nil
	}
	return fmt.Errorf("owned objects are sharded by %s and their owners by %s, so an owner and the objects it owns could belong to different processes: shard owners by %s and owned objects by %s, or both by %s",
		k, owner, ByUID(), ByOwner(), ByNamespace())
}

// OwnerHash returns the hash of one of o's owners under the key that k follows, if that hash is known. If the
// owner does not control o, the hash is known only if the key uses a property that both have in common.
func (k Key) OwnerHash(o object.Head, owner metav1.OwnerReference) (hash uint64, known bool) {
	switch name := k.String(); {
	case name == ByOwner().String():
		return Hash(string(owner.UID)), true
	case name == ByNamespace().String(), owner.Controller != nil && *owner.Controller:
		return k.Hash(o), true
	}
	return 0, false
}

// Hash returns the hash of an object's text: 64-bit FNV-1a as in KEP-5866, stirred unless API servers can
// select by the key. If a ByFunc function panics or calls runtime.Goexit, Hash panics with an error from
// package failure that identifies the function.
func (k Key) Hash(o object.Head) uint64 {
	switch {
	case k.text == nil:
		return Hash(string(o.GetUID()))
	case k.user != "":
		return Stir(Hash(k.call(o)))
	case k.stirred:
		return Stir(Hash(k.text(o)))
	}
	return Hash(k.text(o))
}

// call calls a user's function and attributes panics to it.
func (k Key) call(o object.Head) (text string) {
	var err error
	guard := failure.Guard{In: k.user}
	defer func() {
		if err != nil {
			panic(err)
		}
	}()
	defer guard.End(&err, func(exited error) { err = exited })
	text = k.text(o)
	guard.Returned()
	return text
}

// Hash returns the 64-bit FNV-1a hash of a text.
func Hash(text string) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * prime
	}
	return h
}

// Stir mixes a hash such that every bit of the result depends on all of its bits. It is MurmurHash3's
// finalizer.
func Stir(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// KeyNamed returns the key with the given name, as returned by String. It does not support keys returned
// by ByFunc.
func KeyNamed(name string) (Key, bool) {
	for _, k := range []Key{ByUID(), ByNamespace(), ByOwner()} {
		if k.String() == name {
			return k, true
		}
	}
	if label, ok := strings.CutPrefix(name, "label "); ok && label != "" {
		return ByLabel(label), true
	}
	return Key{}, false
}

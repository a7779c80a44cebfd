package shard

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/failure"
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
	user   string   // what errors call text where it is a user's; empty otherwise
}

// ByUID spreads objects evenly.
func ByUID() Key { return Key{} }

// ByNamespace keeps the objects of a namespace together. It is not for kinds without
// namespaces, which would be in one place all.
func ByNamespace() Key {
	return Key{name: "namespace", text: func(o object.Head) string { return o.GetNamespace() }}
}

// ByOwner keeps objects where their controller owner is: what is controlled by an object
// of UID u is where ByUID puts that. Objects without a controller are where ByUID puts
// them. It does not look further up than that.
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

// ByLabel keeps objects with one value of a label together. It panics without a label.
func ByLabel(label string) Key {
	if label == "" {
		panic("shard: ByLabel without a label")
	}
	return Key{
		name: "label " + label, text: func(o object.Head) string { return object.Labels(o).Get(label) },
		stirred: true, fields: []string{"metadata.labels"},
	}
}

// ByFunc decides by a text that text returns, which must be quick and not change the
// object. The name tells it from other functions: members whose names differ do not
// share their work. It panics without a function or a name.
//
// An informer whose objects the function panics on fails, and says so: nobody could tell
// whose they are.
func ByFunc(name string, text func(object.Head) string) Key {
	if text == nil || name == "" {
		panic(fmt.Sprintf("shard: ByFunc(%q) without a function or a name", name))
	}
	return Key{name: "function " + name, text: text, stirred: true, fields: []string{
		"metadata.generation", "metadata.deletionTimestamp", "metadata.labels", "metadata.annotations", "metadata.ownerReferences",
	}, user: fmt.Sprintf("the function of shard.ByFunc(%q) at %s", name, failure.Place(1))}
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

// Follows returns nil if an object under this key is where the owner that controls it is under
// another, so that the process that has the owner has the object too; else an error that says
// which keys do. Of labels and functions it takes that for true if they have one name.
func (k Key) Follows(owner Key) error {
	switch name := k.String(); {
	case name == ByOwner().String() && owner.String() == ByUID().String():
		return nil
	case name == owner.String() && name != ByUID().String() && name != ByOwner().String():
		return nil
	}
	return fmt.Errorf("what is owned is shared by %s and the owners by %s, so that one process would have an owner and another what it owns: share owners by %s and what they own by %s, or both by %s",
		k, owner, ByUID(), ByOwner(), ByNamespace())
}

// OwnerHash returns the hash of an owner of an object under the key that this key Follows, and
// whether that can be told. An owner that does not control the object is where the object is only
// if the key goes by what the two have in common.
func (k Key) OwnerHash(o object.Head, owner metav1.OwnerReference) (hash uint64, known bool) {
	switch name := k.String(); {
	case name == ByOwner().String():
		return Hash(string(owner.UID)), true
	case name == ByNamespace().String(), owner.Controller != nil && *owner.Controller:
		return k.Hash(o), true
	}
	return 0, false
}

// Hash returns the hash of an object's text: FNV-1a of 64 bits, as in KEP-5866; what no
// server selects by is stirred besides. Where the function of ByFunc panics or calls
// runtime.Goexit, Hash panics with an error of package failure that names it.
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

// call calls a user's function, so that nobody else is blamed for what it does.
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

// KeyNamed returns the key that String names so, for those who have the name alone. The
// functions of ByFunc cannot be found.
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

package json

import (
	"bytes"
	"slices"

	"github.com/millrace-dev/millrace/wire/internal/guard"
)

// apart reports whether a part must not be another object's too, because it leads to a quantity
// that has an address. To read that may write to it, so what is read of one object would change
// the other. The values of maps have no address: who reads one reads a copy. It looks for names
// of fields alone, and so may also say yes where a text is such a name.
func (k *Kind) apart(raw []byte) bool {
	return slices.ContainsFunc(k.quantities(), func(name []byte) bool { return bytes.Contains(raw, name) })
}

// namesOfQuantities returns the names, in quotes, of the fields below a part that point to
// quantities or to what has some in itself. An empty name, which is in all that there is, says
// that the part itself does.
func (k *Kind) namesOfQuantities() (names [][]byte) {
	type way struct {
		to   *Kind
		name string
	}
	gone := make(map[way]bool)
	var follow func(k *Kind, name string)
	follow = func(k *Kind, name string) {
		if gone[way{k, name}] {
			return
		}
		gone[way{k, name}] = true
		switch {
		case k.op == opStruct:
			for _, f := range k.table.fields {
				follow(f.kind, `"`+f.name+`"`)
			}
		case k.quantity, k.elem != nil && k.op != opMap && guard.ContainsQuantity(k.elem.typ):
			names = append(names, []byte(name))
		case k.elem != nil:
			follow(k.elem, name)
		}
	}
	follow(k, "")
	return names
}

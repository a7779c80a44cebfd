package json

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"

	"github.com/millrace-dev/millrace/wire/internal/fault"
	"github.com/millrace-dev/millrace/wire/internal/frame"
	"github.com/millrace-dev/millrace/wire/internal/head"
	"github.com/millrace-dev/millrace/wire/internal/memory"
)

// IdentityOf reads an object's identity and decodes nothing else. ok reports whether the name, UID and
// resource version are all present in their usual form, which guarantees that decoding the object would
// yield the same values.
func IdentityOf(i frame.Item) (of head.Identity, ok bool) {
	if len(i.Tape) == 0 {
		return of, false
	}
	w := walk{Item: i}
	seen := false
	ok = w.eachField(func(name []byte) bool {
		switch string(name) {
		case "apiVersion":
			return w.once(&of.APIVersion)
		case "kind":
			return w.once(&of.Kind)
		case "metadata":
			if seen || w.peek() != '{' {
				return false
			}
			seen = true
			return w.metadata(&of)
		}
		return w.pass()
	})
	return of, ok && of.Name != "" && of.UID != "" && of.RV != ""
}

// ReadHead reads an object's head, except its kind, and decodes nothing else. It returns false if
// the head is not in the form that servers write.
func ReadHead(h *head.Head, i frame.Item) bool {
	if len(i.Tape) == 0 {
		return false
	}
	w := walk{Item: i}
	metadata := func(name []byte) bool {
		w.peek()
		start := w.at
		return w.pass() && (&walk{Item: frame.Item{Raw: w.Raw[start:w.at]}}).readHeadField(h, memory.String(name), true) == nil
	}
	return w.eachField(func(name []byte) bool {
		if string(name) == "metadata" {
			return w.eachField(metadata)
		}
		return w.pass()
	})
}

// nameOf returns the object's name, or nil if it is hard to find.
func nameOf(i frame.Item) (name []byte) {
	if len(i.Tape) == 0 {
		return nil
	}
	w := walk{Item: i}
	w.eachField(func(field []byte) bool {
		if string(field) != "metadata" || w.peek() != '{' {
			return w.pass()
		}
		w.eachField(func(field []byte) bool {
			if string(field) != "name" {
				return w.pass()
			}
			name, _, _ = w.text()
			return false
		})
		return false
	})
	return name
}

func (w *walk) metadata(of *head.Identity) bool {
	return w.eachField(func(name []byte) bool {
		switch string(name) {
		case "namespace":
			return w.once(&of.Namespace)
		case "name":
			return w.once(&of.Name)
		case "uid":
			return w.once(&of.UID)
		case "resourceVersion":
			return w.once(&of.RV)
		}
		return w.pass()
	})
}

// once reads plain text into an empty string. It fails if the field has been read before.
func (w *walk) once(into *string) bool {
	if *into != "" {
		return false
	}
	text, plain, err := w.text()
	*into = memory.String(text)
	return err == nil && plain
}

// eachField calls read at each field value in the object that starts here, until read returns
// false. It reports whether it reached the end of the object.
func (w *walk) eachField(read func(name []byte) bool) bool {
	if w.peek() != '{' {
		return false
	}
	for more := w.enter('}'); more; {
		name, plain, err := w.text()
		if err != nil || !plain || w.colon() != nil || !read(name) {
			return false
		}
		if more, err = w.more('}'); err != nil {
			return false
		}
	}
	return true
}

// pass skips a value without checking its content.
func (w *walk) pass() bool {
	if c := w.peek(); c == '{' || c == '[' {
		w.skipContainer()
		return true
	}
	return w.skip() == nil
}

// Claim is an object's kind and, for a Status, its fields. It is used for error messages, and for bodies that
// may be a Status.
type Claim struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"metadata"`
}

// ReadClaim reads as much of the claim as possible. The object has already been rejected, so
// ReadClaim ignores further errors.
func ReadClaim(raw []byte) (h Claim) {
	_ = kjson.UnmarshalCaseSensitivePreserveInts(raw, &h)
	return h
}

// recordHeadField records a field of an object or its metadata in the head if it belongs there. whole
// indicates that the entire field is wanted. It fails on input that servers do not write, such as a name
// that appears twice.
func (d *Decoder) recordHeadField(at level, name string, raw []byte, whole bool) error {
	h := d.filter.head
	w := &walk{Item: frame.Item{Raw: raw}}
	if at == atRoot {
		switch name {
		case "apiVersion":
			return w.readText(&h.APIVersion)
		case "kind":
			return w.readText(&h.Kind)
		case "metadata":
			if d.filter.metadata || w.peek() != '{' {
				return fault.ErrUnusual
			}
			d.filter.metadata = true
		}
		return nil
	}
	if at != atMetadata {
		return nil
	}
	return w.readHeadField(h, name, whole)
}

// readHeadField reads a metadata field into the head.
func (w *walk) readHeadField(h *head.Head, name string, whole bool) error {
	switch name {
	case "namespace":
		return w.readText(&h.Namespace)
	case "name":
		return w.readText(&h.Name)
	case "uid":
		return w.readText(&h.UID)
	case "resourceVersion":
		return w.readText(&h.RV)
	case "generation":
		return w.readGeneration(h)
	case "deletionTimestamp":
		return w.readDeletion(h)
	case "labels":
		h.HasLabels = true
		return w.readLabels(h, whole)
	case "annotations":
		return w.readAnnotations(h, whole)
	case "ownerReferences":
		h.HasOwners = true
		return w.readOwners(h, whole)
	}
	return nil
}

// readText reads text into at, which must be empty.
func (w *walk) readText(at *string) error {
	text, plain, err := w.text()
	if err != nil || !plain || *at != "" {
		return fault.ErrUnusual
	}
	if len(text) > 0 { // an empty string would refer to the body
		*at = memory.String(text)
	}
	return nil
}

func (w *walk) readGeneration(h *head.Head) error {
	text, whole, err := w.number()
	if err != nil || !whole || h.Generation != 0 {
		return fault.ErrUnusual
	}
	h.Generation, err = wholeNumber(text)
	return fault.Unusual(err)
}

func (w *walk) readDeletion(h *head.Head) error {
	if h.Deleted != nil {
		return fault.ErrUnusual
	}
	if w.peek() == 'n' {
		return w.literal("null")
	}
	var text string
	if err := w.readText(&text); err != nil {
		return err
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil || at.IsZero() {
		return fault.ErrUnusual
	}
	h.SetDeleted(metav1.NewTime(at.Local()))
	return nil
}

// readPairs reads a map of strings whose keys are sorted, as servers write them, and therefore
// unique.
func (w *walk) readPairs(whole bool, pair func(key []byte) error) error {
	if !whole || w.peek() != '{' {
		return fault.ErrUnusual
	}
	var before []byte
	for more := w.enter('}'); more; {
		key, plain, err := w.text()
		if err != nil || !plain || before != nil && string(before) >= string(key) {
			return fault.ErrUnusual
		}
		before = key
		if err = w.colon(); err == nil {
			err = pair(key)
		}
		if err != nil {
			return err
		}
		if more, err = w.more('}'); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) readLabels(h *head.Head, whole bool) error {
	if len(h.Labels) > 0 {
		return fault.ErrUnusual
	}
	return w.readPairs(whole, func(key []byte) error {
		l := head.Label{Key: memory.String(key)}
		err := w.readText(&l.Value)
		h.Labels = append(h.Labels, l)
		return err
	})
}

func (w *walk) readAnnotations(h *head.Head, whole bool) error {
	if len(h.Annotations) > 0 {
		return fault.ErrUnusual
	}
	return w.readPairs(whole, func(key []byte) error {
		if w.peek() != '"' {
			return fault.ErrUnusual
		}
		text, plain, err := w.text()
		if err != nil || !h.WantsAnnotation(key) {
			return err
		}
		if !plain {
			text, err = unescape(nil, text)
		}
		h.Annotations = append(h.Annotations, head.Label{Key: string(key), Value: string(text)})
		return err
	})
}

func (w *walk) readOwners(h *head.Head, whole bool) error {
	if !whole || len(h.Owners) > 0 || w.peek() != '[' {
		return fault.ErrUnusual
	}
	for more := w.enter(']'); more; {
		var o metav1.OwnerReference
		err := w.readOwner(h, &o)
		if err != nil {
			return err
		}
		h.Owners = append(h.Owners, o)
		if more, err = w.more(']'); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) readOwner(h *head.Head, o *metav1.OwnerReference) error {
	if w.peek() != '{' {
		return fault.ErrUnusual
	}
	for more := w.enter('}'); more; {
		name, plain, err := w.text()
		if err == nil && plain {
			err = w.colon()
		}
		if err != nil || !plain {
			return fault.ErrUnusual
		}
		switch string(name) {
		case "apiVersion":
			err = w.readText(&o.APIVersion)
		case "kind":
			err = w.readText(&o.Kind)
		case "name":
			err = w.readText(&o.Name)
		case "uid":
			var uid string
			err = w.readText(&uid)
			o.UID = types.UID(uid)
		case "controller":
			err = w.readBool(h, &o.Controller)
		case "blockOwnerDeletion":
			err = w.readBool(h, &o.BlockOwnerDeletion)
		default:
			err = fault.ErrUnusual
		}
		if err != nil {
			return err
		}
		if more, err = w.more('}'); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) readBool(h *head.Head, at **bool) error {
	if *at != nil {
		return fault.ErrUnusual
	}
	on := w.peek() == 't'
	*at = h.BoolPtr(on)
	if on {
		return w.literal("true")
	}
	return w.literal("false")
}

package json

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/wire/internal/fault"
	"github.com/millrace-dev/millrace/wire/internal/frame"
	"github.com/millrace-dev/millrace/wire/internal/head"
	"github.com/millrace-dev/millrace/wire/internal/memory"
)

// noteField notes a field of an object or of its metadata in the head, if it belongs there. Whole
// says that all of it is wanted. It fails at what servers do not write, such as a name that is there twice.
func (d *Run) noteField(at level, name string, raw []byte, whole bool) error {
	h := d.sieve.head
	w := &walk{Item: frame.Item{Raw: raw}}
	if at == atRoot {
		switch name {
		case "apiVersion":
			return w.noteText(&h.APIVersion)
		case "kind":
			return w.noteText(&h.Kind)
		case "metadata":
			if d.sieve.metadata || w.peek() != '{' {
				return fault.ErrUnusual
			}
			d.sieve.metadata = true
		}
		return nil
	}
	if at != atMetadata {
		return nil
	}
	return w.noteMetadata(h, name, whole)
}

// noteMetadata notes a field of the metadata.
func (w *walk) noteMetadata(h *head.Head, name string, whole bool) error {
	switch name {
	case "namespace":
		return w.noteText(&h.Namespace)
	case "name":
		return w.noteText(&h.Name)
	case "uid":
		return w.noteText(&h.UID)
	case "resourceVersion":
		return w.noteText(&h.RV)
	case "generation":
		return w.noteGeneration(h)
	case "deletionTimestamp":
		return w.noteDeletion(h)
	case "labels":
		h.HasLabels = true
		return w.noteLabels(h, whole)
	case "annotations":
		return w.noteAnnotations(h, whole)
	case "ownerReferences":
		h.HasOwners = true
		return w.noteOwners(h, whole)
	}
	return nil
}

// noteText reads a text into the empty string at at.
func (w *walk) noteText(at *string) error {
	text, plain, err := w.text()
	if err != nil || !plain || *at != "" {
		return fault.ErrUnusual
	}
	if len(text) > 0 { // an empty string would refer to the body
		*at = memory.String(text)
	}
	return nil
}

func (w *walk) noteGeneration(h *head.Head) error {
	text, whole, err := w.number()
	if err != nil || !whole || h.Generation != 0 {
		return fault.ErrUnusual
	}
	h.Generation, err = wholeNumber(text)
	return fault.Unusual(err)
}

func (w *walk) noteDeletion(h *head.Head) error {
	if h.Deleted != nil {
		return fault.ErrUnusual
	}
	if w.peek() == 'n' {
		return w.word("null")
	}
	var text string
	if err := w.noteText(&text); err != nil {
		return err
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil || at.IsZero() {
		return fault.ErrUnusual
	}
	h.Delete(metav1.NewTime(at.Local()))
	return nil
}

// notePairs reads a map of strings, whose keys come in order, as servers write them: so none
// is there twice.
func (w *walk) notePairs(whole bool, pair func(key []byte) error) error {
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

func (w *walk) noteLabels(h *head.Head, whole bool) error {
	if len(h.Labels) > 0 {
		return fault.ErrUnusual
	}
	return w.notePairs(whole, func(key []byte) error {
		l := head.Label{Key: memory.String(key)}
		err := w.noteText(&l.Value)
		h.Labels = append(h.Labels, l)
		return err
	})
}

func (w *walk) noteAnnotations(h *head.Head, whole bool) error {
	if len(h.Annotations) > 0 {
		return fault.ErrUnusual
	}
	return w.notePairs(whole, func(key []byte) error {
		if w.peek() != '"' {
			return fault.ErrUnusual
		}
		text, plain, err := w.text()
		if err != nil || !h.Wants(key) {
			return err
		}
		if !plain {
			text, err = unescape(nil, text)
		}
		h.Annotations = append(h.Annotations, head.Label{Key: string(key), Value: string(text)})
		return err
	})
}

func (w *walk) noteOwners(h *head.Head, whole bool) error {
	if !whole || len(h.Owners) > 0 || w.peek() != '[' {
		return fault.ErrUnusual
	}
	for more := w.enter(']'); more; {
		var o metav1.OwnerReference
		err := w.noteOwner(h, &o)
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

func (w *walk) noteOwner(h *head.Head, o *metav1.OwnerReference) error {
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
			err = w.noteText(&o.APIVersion)
		case "kind":
			err = w.noteText(&o.Kind)
		case "name":
			err = w.noteText(&o.Name)
		case "uid":
			var uid string
			err = w.noteText(&uid)
			o.UID = types.UID(uid)
		case "controller":
			err = w.noteFlag(h, &o.Controller)
		case "blockOwnerDeletion":
			err = w.noteFlag(h, &o.BlockOwnerDeletion)
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

func (w *walk) noteFlag(h *head.Head, at **bool) error {
	if *at != nil {
		return fault.ErrUnusual
	}
	on := w.peek() == 't'
	*at = h.Flag(on)
	if on {
		return w.word("true")
	}
	return w.word("false")
}

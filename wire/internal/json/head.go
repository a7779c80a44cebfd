package json

import (
	kjson "sigs.k8s.io/json"

	"github.com/millrace-dev/millrace/wire/internal/frame"
	"github.com/millrace-dev/millrace/wire/internal/head"
	"github.com/millrace-dev/millrace/wire/internal/memory"
)

// Identity is which object an object is, in which version, and of which kind. Its strings
// point into the object's bytes.
type Identity struct {
	APIVersion, Kind         string
	Namespace, Name, UID, RV string
}

// IdentityOf reads the identity of an object and decodes nothing else. ok means that the name,
// the UID and the version are there, and all in their usual form, so that decoding the object
// would give the same.
func IdentityOf(i frame.Item) (of Identity, ok bool) {
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

// ReadHead reads all of the head of an object, but for its kind, if it is as servers write it.
// It decodes nothing else.
func ReadHead(h *head.Head, i frame.Item) bool {
	if len(i.Tape) == 0 {
		return false
	}
	w := walk{Item: i}
	metadata := func(name []byte) bool {
		w.peek()
		start := w.at
		return w.pass() && (&walk{Item: frame.Item{Raw: w.Raw[start:w.at]}}).noteMetadata(h, memory.String(name), true) == nil
	}
	return w.eachField(func(name []byte) bool {
		if string(name) == "metadata" {
			return w.eachField(metadata)
		}
		return w.pass()
	})
}

// nameOf returns the name of the object, or nil if it is not easily found.
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

func (w *walk) metadata(of *Identity) bool {
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

// once reads a plain text that was not met before.
func (w *walk) once(into *string) bool {
	if *into != "" {
		return false
	}
	text, plain, err := w.text()
	*into = memory.String(text)
	return err == nil && plain
}

// eachField calls read at the value of each field of the object that begins
// here, until it returns false. It reports whether all went well.
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

// pass skips a value without looking into it.
func (w *walk) pass() bool {
	if c := w.peek(); c == '{' || c == '[' {
		w.jump()
		return true
	}
	return w.skip() == nil
}

// Claim is what an object says about itself. It is read for error messages, and
// for bodies that may be a Status.
type Claim struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"metadata"`
}

// ReadClaim reads as much of the claim as it can. The object was already refused, so
// a second failure would say nothing new.
func ReadClaim(raw []byte) (h Claim) {
	_ = kjson.UnmarshalCaseSensitivePreserveInts(raw, &h)
	return h
}

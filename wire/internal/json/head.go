package json

import (
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire/internal/frame"
	"github.com/millrace-dev/millrace/wire/internal/memory"
)

// HeadOf reads the key, UID and resource version of an object and decodes nothing
// else. ok means that all of them are there in their usual form, so that decoding
// the object would give the same. The strings point into i.raw.
func HeadOf(i frame.Item) (key object.Key, uid types.UID, rv string, ok bool) {
	if len(i.Tape) == 0 {
		return key, "", "", false
	}
	w := walk{Item: i}
	seen := false
	ok = w.eachField(func(name []byte) bool {
		if string(name) != "metadata" {
			return w.pass()
		}
		if seen || w.peek() != '{' {
			return false
		}
		seen = true
		return w.metadata(&key, &uid, &rv)
	})
	return key, uid, rv, ok && key.Name != "" && uid != "" && rv != ""
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

func (w *walk) metadata(key *object.Key, uid *types.UID, rv *string) bool {
	return w.eachField(func(name []byte) bool {
		var into *string
		switch string(name) {
		case "namespace":
			into = &key.Namespace
		case "name":
			into = &key.Name
		case "uid":
			into = (*string)(uid)
		case "resourceVersion":
			into = rv
		default:
			return w.pass()
		}
		if *into != "" {
			return false
		}
		text, plain, err := w.text()
		*into = memory.String(text)
		return err == nil && plain
	})
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

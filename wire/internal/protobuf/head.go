package protobuf

import (
	"math"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/wire/internal/frame"
	"github.com/millrace-dev/millrace/wire/internal/head"
	"github.com/millrace-dev/millrace/wire/internal/memory"
)

// The fields of metav1.ObjectMeta and of metav1.OwnerReference.
const (
	metaName        = 1
	metaNamespace   = 3
	metaUID         = 5
	metaRV          = 6
	metaGeneration  = 7
	metaDeleted     = 9
	metaLabels      = 11
	metaAnnotations = 12
	metaOwners      = 13

	ownerKind       = 1
	ownerName       = 3
	ownerUID        = 4
	ownerAPIVersion = 5
	ownerController = 6
	ownerBlocks     = 7
)

// IdentityOf reads an object's identity without decoding the rest. It lacks the apiVersion and kind, which
// are in the envelope. Every API type has its ObjectMeta as field 1. ok is false if one of these fields
// appears twice or the bytes are not in the form that API servers write; the identity then contains
// everything read up to that point.
func IdentityOf(raw []byte) (of head.Identity, ok bool) {
	var name, namespace, uid, rv []byte
	ok = readIdentity(raw, &name, &namespace, &uid, &rv)
	return head.Identity{Namespace: text(namespace), Name: text(name), UID: text(uid), RV: text(rv)}, ok
}

func readIdentity(raw []byte, name, namespace, uid, rv *[]byte) bool {
	var meta []byte
	for len(raw) > 0 {
		var tag uint64
		var value []byte
		if tag, value, raw = plainField(raw); tag == 0 || tag>>3 == 1 && !once(&meta, tag, value) {
			return false
		}
	}
	for len(meta) > 0 {
		var tag uint64
		var value []byte
		tag, value, meta = plainField(meta)
		first := tag != 0
		switch tag >> 3 {
		case metaName:
			first = once(name, tag, value)
		case metaNamespace:
			first = once(namespace, tag, value)
		case metaUID:
			first = once(uid, tag, value)
		case metaRV:
			first = once(rv, tag, value)
		}
		if !first {
			return false
		}
	}
	return true
}

// plainField splits off a field that is a number or bytes. tag is 0 if there is none.
func plainField(msg []byte) (tag uint64, value, rest []byte) {
	tag, n := varint(msg)
	size, m := varint(msg[n:])
	start := n + m
	switch {
	case n == 0 || m == 0 || tag>>3 == 0 || tag > math.MaxUint32:
	case tag&7 == frame.WireVarint:
		return tag, nil, msg[start:]
	case tag&7 == frame.WireBytes && size <= uint64(len(msg)-start):
		end := start + int(size)
		return tag, msg[start:end:end], msg[end:]
	}
	return 0, nil, nil
}

// once stores a field's bytes. It returns false if the field has already been stored or does not
// consist of bytes.
func once(at *[]byte, tag uint64, value []byte) bool {
	if tag&7 != frame.WireBytes || *at != nil {
		return false
	}
	*at = value
	return true
}

// ReadHead reads an object's head, except its kind. IdentityOf must have accepted the object. It returns
// false if the bytes can only be read by a full decoder.
func ReadHead(h *head.Head, raw []byte) bool {
	meta, _, ok := lengthField(raw, 1)
	for ok && len(meta) > 0 {
		var tag uint64
		var value []byte
		field := meta
		if tag, value, meta = plainField(meta); tag == 0 {
			return false
		}
		switch tag >> 3 {
		case metaName:
			h.Name = text(value)
		case metaNamespace:
			h.Namespace = text(value)
		case metaUID:
			h.UID = text(value)
		case metaRV:
			h.RV = text(value)
		case metaGeneration:
			h.Generation = int64(number(field))
		case metaDeleted:
			var at metav1.Time
			ok = h.Deleted == nil && at.Unmarshal(value) == nil
			h.SetDeleted(at)
		case metaLabels:
			h.HasLabels = true
			h.Labels, ok = addPair(h.Labels, value)
		case metaAnnotations:
			if key, _, _ := lengthField(value, 1); h.WantsAnnotation(key) {
				h.Annotations, ok = addPair(h.Annotations, value)
			}
		case metaOwners:
			h.HasOwners = true
			var o metav1.OwnerReference
			ok = readOwner(h, &o, value)
			h.Owners = append(h.Owners, o)
		}
	}
	return ok
}

// addPair adds an entry to a map of strings. Servers sort the entries, so their keys are unique. It
// returns false for anything else.
func addPair(to []head.Label, entry []byte) ([]head.Label, bool) {
	key, rest, _ := lengthField(entry, 1)
	value, rest, ok := lengthField(rest, 2)
	if n := len(to); len(rest) > 0 || n > 0 && to[n-1].Key >= text(key) {
		ok = false
	}
	return append(to, head.Label{Key: text(key), Value: text(value)}), ok
}

// readOwner parses an owner reference.
func readOwner(h *head.Head, o *metav1.OwnerReference, raw []byte) bool {
	for len(raw) > 0 {
		var tag uint64
		var value []byte
		field := raw
		if tag, value, raw = plainField(raw); tag == 0 {
			return false
		}
		switch tag >> 3 {
		case ownerKind:
			o.Kind = text(value)
		case ownerName:
			o.Name = text(value)
		case ownerUID:
			o.UID = types.UID(text(value))
		case ownerAPIVersion:
			o.APIVersion = text(value)
		case ownerController:
			o.Controller = h.BoolPtr(uint(number(field)) != 0)
		case ownerBlocks:
			o.BlockOwnerDeletion = h.BoolPtr(uint(number(field)) != 0)
		}
	}
	return true
}

// number returns a number field's value.
func number(field []byte) uint64 {
	_, n := varint(field)
	value, _ := varint(field[n:])
	return value
}

// text returns raw as a string. An empty string does not refer to any memory.
func text(raw []byte) string {
	if len(raw) == 0 {
		return ""
	}
	return memory.String(raw)
}

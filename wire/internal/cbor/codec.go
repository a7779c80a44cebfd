// Package cbor decodes CBOR objects found by package frame. It decodes an object's identity and a watch
// event's two fields itself, and uses apimachinery's codec for everything else.
package cbor

import (
	"errors"
	"fmt"

	codec "github.com/fxamacker/cbor/v2"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"

	"github.com/millrace-dev/millrace/wire/internal/fault"
	"github.com/millrace-dev/millrace/wire/internal/frame"
	"github.com/millrace-dev/millrace/wire/internal/guard"
)

// Unmarshal decodes a map of any kind with apimachinery's codec.
func Unmarshal(raw []byte, into runtime.Object) error {
	w := walk{raw: raw}
	if h, ok := w.enter(); !ok || h.Major != frame.CBORMap {
		return fmt.Errorf("%w: want a CBOR map", fault.ErrSyntax)
	}
	anyKind := schema.GroupVersionKind{Version: "v1", Kind: "Any"} // if the map specifies none
	if _, _, err := cbor.NewSerializer(target{into}, nil).Decode(raw, &anyKind, nil); err != nil {
		return reason(err)
	}
	return nil
}

// reason explains why the codec rejected an object, without quoting the object. The codec in apimachinery
// v0.35 supports fewer levels and fewer elements than Options allow.
func reason(err error) error {
	const advice = "read such objects from JSON, or build with v0.36 or later of k8s.io/apimachinery"
	if limit, ok := errors.AsType[*codec.MaxNestedLevelError](err); ok {
		return fmt.Errorf("%w by apimachinery's codec (%v): %s", fault.ErrTooDeep, limit, advice)
	}
	if limit, ok := errors.AsType[*codec.MaxArrayElementsError](err); ok {
		return fmt.Errorf("%w by apimachinery's codec (%v): %s", fault.ErrTooLarge, limit, advice)
	}
	if limit, ok := errors.AsType[*codec.MaxMapPairsError](err); ok {
		return fmt.Errorf("%w by apimachinery's codec (%v): %s", fault.ErrTooLarge, limit, advice)
	}
	return fault.WithoutContent(err)
}

// target is an option that makes a codec decode into an existing object.
type target struct{ object runtime.Object }

func (i target) New(schema.GroupVersionKind) (runtime.Object, error) { return i.object, nil }

// Tree is an object without a Go type. The codec's own unstructured decoding rejects objects that
// do not specify their kind, but list items may lack it.
type Tree map[string]any

func (t *Tree) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

func (t *Tree) DeepCopyObject() runtime.Object {
	copied := Tree(runtime.DeepCopyJSON(*t))
	return &copied
}

// MayHideAbsurdQuantity reports whether a string in raw is an absurd quantity, or may turn into one
// once its tags are applied or its chunks are joined. raw is a data item found by a scanner.
func MayHideAbsurdQuantity(raw []byte) bool {
	for n := 0; n < len(raw); {
		h, ok, err := frame.ReadCBORHead(raw[n:])
		if !ok || err != nil {
			return true
		}
		n += h.Size
		switch h.Major {
		case frame.CBORTag:
			if h.Value != frame.CBORSelfDescribed {
				return true
			}
		case frame.CBORBytes, frame.CBORText:
			if h.Indefinite || h.Value > uint64(len(raw)-n) || guard.AbsurdQuantity(raw[n:n+int(h.Value)]) {
				return true
			}
			n += int(h.Value)
		}
	}
	return false
}

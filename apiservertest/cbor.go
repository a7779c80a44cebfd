package apiservertest

import (
	"bytes"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/object"
)

// cborMagic is the tag at the start of every CBOR body in the Kubernetes API.
var cborMagic = []byte{0xd9, 0xd9, 0xf7}

// Major types of CBOR data items. A head is the major type plus a number below 24.
const (
	cborText  = 0x60
	cborArray = 0x80
	cborMap   = 0xa0

	cborReserved = 0x1c // never starts a valid item
)

// appendCBORHead appends the head of a data item with argument n.
func appendCBORHead(dst []byte, major byte, n int) []byte {
	if n < 24 {
		return append(dst, major|byte(n))
	}
	return append(dst, major|26, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
}

func appendCBORText(dst []byte, text string) []byte {
	return append(appendCBORHead(dst, cborText, len(text)), text...)
}

// encodeCBOR encodes obj without the tag.
func encodeCBOR(obj runtime.Object) ([]byte, error) {
	var b bytes.Buffer
	err := cbor.NewSerializer(nil, nil).Encode(obj, &b)
	return bytes.TrimPrefix(b.Bytes(), cborMagic), err
}

// cborBody encodes obj as a CBOR response and as a list item, in which some objects have no kind.
func cborBody(gvk object.GVK, obj runtime.Object, bareItem bool) (body, item []byte, err error) {
	kinded := obj.DeepCopyObject()
	kinded.GetObjectKind().SetGroupVersionKind(gvk)
	raw, err := encodeCBOR(kinded)
	if err != nil {
		return nil, nil, err
	}
	body = append(cborMagic[:len(cborMagic):len(cborMagic)], raw...)
	if !bareItem {
		return body, raw, nil
	}
	item, err = encodeCBOR(obj)
	return body, item, err
}

// cborListFrame returns the parts of a list before and after its n items.
func cborListFrame(gvk object.GVK, meta listMeta, n int) (head, tail []byte, err error) {
	metadata, err := direct.Marshal(meta)
	if err != nil {
		return nil, nil, err
	}
	head = appendCBORHead(append(head, cborMagic...), cborMap, 4)
	head = appendCBORText(appendCBORText(head, "kind"), gvk.Kind)
	head = appendCBORHead(appendCBORText(head, "items"), cborArray, n)
	tail = append(appendCBORText(tail, "metadata"), metadata...)
	return head, appendCBORText(appendCBORText(tail, "apiVersion"), gvk.GroupVersion().String()), nil
}

func appendCBORFrame(dst []byte, kind watch.EventType, body []byte) []byte {
	dst = appendCBORHead(append(dst, cborMagic...), cborMap, 2)
	dst = appendCBORText(appendCBORText(dst, "type"), string(kind))
	return append(appendCBORText(dst, "object"), body...)
}

// oversizedCBOR returns an object of about size bytes.
func oversizedCBOR(size int) []byte {
	huge := appendCBORText(appendCBORHead(nil, cborMap, 1), "huge")
	return append(appendCBORHead(huge, cborText, size), make([]byte, size)...)
}

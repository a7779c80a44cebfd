package wire

import (
	"reflect"

	kjson "sigs.k8s.io/json"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire/internal/fault"
	"github.com/millrace-dev/millrace/wire/internal/frame"
	"github.com/millrace-dev/millrace/wire/internal/guard"
	"github.com/millrace-dev/millrace/wire/internal/json"
)

// UnmarshalJSON makes an object of JSON that anybody may have written, such as a part
// of a webhook's body, as apimachinery does. It refuses an object whose own apiVersion and
// kind are not those of kind, or are missing. It also refuses what a Decoder refuses (W02):
// text that nests deeper than DefaultMaxDepth, what would keep apimachinery's code busy
// for hours, and what would become more memory than MaxMemoryPerByte allows. It does not look
// at the name. Its errors wrap ErrKind, ErrSyntax, ErrTooDeep, ErrTooDense, ErrQuantity or
// io.ErrUnexpectedEOF. Of the content, which may be a secret, they hold apiVersion and kind
// alone. It is safe for concurrent use.
func UnmarshalJSON[T object.Object](raw []byte, kind object.GVK) (T, error) {
	o, err := unmarshalJSON(raw, Options{Kind: kind, Type: reflect.TypeFor[T]()})
	made, _ := o.(T)
	return made, err
}

func unmarshalJSON(raw []byte, opts Options) (object.Object, error) {
	t, err := newTarget(opts)
	if err != nil {
		return nil, err
	}
	return t.unmarshalJSON(raw)
}

func (t *target) unmarshalJSON(raw []byte) (object.Object, error) {
	s := &frame.JSON{Source: frame.FromBytes(raw), MaxBytes: max(len(raw), 1), MaxDepth: DefaultMaxDepth}
	if _, err := onlyObject(s); err != nil {
		return nil, fault.Truncated(err)
	}
	if h := json.ReadClaim(raw); !t.is(h.APIVersion, h.Kind) {
		return nil, t.wrongKind(h.APIVersion, h.Kind, "")
	}
	if err := json.Check(t.guard, raw); err != nil {
		return nil, err
	}
	obj := t.new()
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, obj); err != nil {
		return nil, fault.WithoutContent(err)
	}
	return obj, nil
}

// WeighJSON estimates how many bytes of memory apimachinery's code takes to decode raw into a value
// of type t, a pointer. It may take three times as much while a list grows. raw must be valid JSON.
// WeighJSON refuses nothing.
func WeighJSON(raw []byte, t reflect.Type) int64 { return json.Weigh(guard.Of(t), raw) }

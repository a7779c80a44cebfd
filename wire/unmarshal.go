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
// of a webhook's body, as apimachinery does. It refuses what a Decoder refuses (W02):
// text that nests deeper than DefaultMaxDepth, and what would keep apimachinery's
// code busy for hours. It does not look at kind and name. Its errors wrap ErrSyntax,
// ErrTooDeep, ErrQuantity or io.ErrUnexpectedEOF, and hold nothing of the content,
// which may be a secret. T must be a pointer. It is safe for concurrent use.
func UnmarshalJSON[T object.Object](raw []byte) (T, error) {
	var none T
	s := &frame.JSON{Source: frame.FromBytes(raw), MaxBytes: max(len(raw), 1), MaxDepth: DefaultMaxDepth}
	if _, err := onlyObject(s); err != nil {
		return none, fault.Truncated(err)
	}
	of := reflect.TypeFor[T]().Elem()
	if json.Suspicious(raw) {
		if err := json.Check(guard.Of(of), raw); err != nil {
			return none, err
		}
	}
	obj := reflect.New(of).Interface().(T)
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, obj); err != nil {
		return none, fault.WithoutContent(err)
	}
	return obj, nil
}

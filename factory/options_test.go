package factory

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every option that a factory and its informers have in common is passed on.
func TestEveryOptionReachesTheInformers(t *testing.T) {
	var opts Options
	set(t, reflect.ValueOf(&opts).Elem())
	from, to := reflect.ValueOf(opts), reflect.ValueOf(opts.informer(Scope{}))
	reached := 0
	for field, value := range from.Fields() {
		got := to.FieldByName(field.Name)
		if !got.IsValid() || field.Name == "Namespaces" || field.Name == "Store" {
			continue // which the factory looks at first
		}
		require.False(t, got.IsZero(), "%s does not reach the informers", field.Name)
		if value.Comparable() {
			require.Equal(t, value.Interface(), got.Interface(), field.Name)
		}
		reached++
	}
	require.Positive(t, reached)
}

// set gives v, or a part of it if it is a struct, a nonzero value.
func set(t *testing.T, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			if field.CanSet() {
				set(t, field)
			}
		}
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int64:
		v.SetInt(1)
	case reflect.Uint8:
		v.SetUint(1)
	case reflect.Float64:
		v.SetFloat(1)
	case reflect.String:
		v.SetString("x")
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Func:
		v.Set(reflect.MakeFunc(v.Type(), nil))
	case reflect.Interface:
	default:
		t.Fatalf("no value for a %v", v.Type())
	}
}

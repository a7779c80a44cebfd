package wire

import (
	"math/rand"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/resource"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/randfill"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire/internal/protobuf"
)

// apiType is a Go type of the scheme, with the first of its kinds.
type apiType struct {
	kind object.GVK
	typ  reflect.Type
}

// apiTypes returns every Go type of the scheme once, always in the same order.
func apiTypes(all *runtime.Scheme) []apiType {
	var types []apiType
	for kind, typ := range all.AllKnownTypes() {
		if kind.Version != runtime.APIVersionInternal {
			types = append(types, apiType{kind, typ})
		}
	}
	slices.SortFunc(types, func(a, b apiType) int { return strings.Compare(a.kind.String(), b.kind.String()) })
	seen := make(map[reflect.Type]bool)
	return slices.DeleteFunc(types, func(a apiType) bool {
		before := seen[a.typ]
		seen[a.typ] = true
		return before
	})
}

// isObject reports whether an informer could hold values of the type.
func (a apiType) isObject() bool {
	return reflect.PointerTo(a.typ).Implements(reflect.TypeFor[object.Object]())
}

// fullness determines how much of an object is filled.
type fullness struct {
	nils      float64 // the share of nil pointers, maps and lists
	from, max int     // elements of a list
}

var (
	full   = fullness{0, 1, 2}
	half   = fullness{.5, 0, 3}
	sparse = fullness{.9, 1, 3}
)

// filler makes random objects with apimachinery's own fuzzers.
type filler struct {
	codecs serializer.CodecFactory
}

func newFiller(all *runtime.Scheme) *filler {
	return &filler{serializer.NewCodecFactory(all)}
}

// object returns a new random value of a type, which depends only on the seed. If the type has
// metadata, it sets a name and a namespace.
func (f *filler) object(typ reflect.Type, how fullness, seed int64) runtime.Object {
	if protobuf.ContainsItself(typ) {
		how = sparse // it would grow without end
	}
	obj := reflect.New(typ).Interface().(runtime.Object)
	fuzzer.FuzzerFor(fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs, variedFuncs), rand.NewSource(seed), f.codecs).
		NilChance(how.nils).NumElements(how.from, how.max).Fill(obj)
	if named, ok := obj.(object.Object); ok {
		named.SetName("name")
		named.SetNamespace("namespace")
	}
	return obj
}

// variedFuncs fill fields that apimachinery's fuzzers omit or always fill alike.
func variedFuncs(serializer.CodecFactory) []any {
	return []any{
		func(q *resource.Quantity, c randfill.Continue) {
			texts := []string{"0", "1", "-1", "500m", "2Gi", "1e3", "1E2", "0.1", "12345678901234567890", ".5u", "100Ki"}
			*q = resource.MustParse(texts[c.Intn(len(texts))])
			if c.Bool() {
				_ = q.String() // which caches its text
			}
		},
		func(e *metav1.ManagedFieldsEntry, c randfill.Continue) { c.FillNoCustom(e) },
		func(f *metav1.FieldsV1, c randfill.Continue) {
			texts := []string{`{}`, `{"f:metadata":{"f:labels":{"f:a":{}}}}`, `{"f:spec":{"k:{\"name\":\"é\"}":{".":{}}}}`}
			f.Raw = []byte(texts[c.Intn(len(texts))])
		},
		func(m *map[string][]byte, c randfill.Continue) {
			c.FillNoCustom(m)
			for key, data := range *m {
				if data == nil { // servers never send that, and protobuf omits it
					(*m)[key] = []byte{}
				}
			}
		},
		func(r *runtime.RawExtension, c randfill.Continue) {
			texts := []string{`{}`, `{"kind":"A","apiVersion":"b/v1","x":[1,2.5,"é",null,true]}`, `{"a":{"b":{}}}`}
			r.Raw = []byte(texts[c.Intn(len(texts))])
		},
	}
}

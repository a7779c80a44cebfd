package webhook

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/test/hostile"
	"github.com/millrace-dev/millrace/wire"
)

// To decode an object takes no more memory than a small multiple of its weight, garbage included.
func TestWeightBoundsTheMemoryOfAnObject(t *testing.T) {
	many := func(before, each, after string) string {
		return before + strings.Repeat(each+",", 9_999) + each + after
	}
	named := func(each string) string {
		var all []string
		for n := range 10_000 {
			all = append(all, fmt.Sprintf(`"%d":%s`, n, each))
		}
		return "{" + strings.Join(all, ",") + "}"
	}
	for name, weighs := range map[string]func(t *testing.T){
		"containers":      weighed[*corev1.Pod](many(`{"spec":{"containers":[`, `{}`, `]}}`)),
		"no containers":   weighed[*corev1.Pod](many(`{"spec":{"containers":[`, `null`, `]}}`)),
		"an escaped name": weighed[*corev1.Pod](many(`{"sp\u0065c" : {"containers" : [ `, ` { } `, ` ] } } `)),
		"probes":          weighed[*corev1.Pod](many(`{"spec":{"containers":[`, `{"livenessProbe":{"httpGet":{}},"env":[{"valueFrom":{"fieldRef":{}}}]}`, `]}}`)),
		"labels":          weighed[*corev1.Pod](`{"metadata":{"labels":` + named(`""`) + `}}`),
		"quantities":      weighed[*corev1.Pod](`{"spec":{"overhead":` + named(`"1"`) + `}}`),
		"limits":          weighed[*corev1.Pod](many(`{"spec":{"containers":[`, `{"resources":{"limits":{"cpu":"1"}}}`, `]}}`)),
		"managed fields":  weighed[*corev1.Pod](`{"metadata":{"managedFields":[{"fieldsV1":` + named(`{}`) + `}]}}`),
		"text":            weighed[*corev1.ConfigMap](many(`{"data":{"a":"`, `\"]}`, `"}}`)),
		"images":          weighed[*corev1.Node](many(`{"status":{"images":[`, `{"names":[""]}`, `]}}`)),
		"no type":         weighed[*unstructured.Unstructured](many(`{"apiVersion":"v1","kind":"A","a":[`, `{},[],"",0,{"b":1}`, `]}`)),
		"a map embedded":  weighed[*embedding](`{"Embedded":` + named(`""`) + `}`),
		"an inner name":   weighed[*embedding](many(`{"name":[`, `{}`, `]}`)),
		"embedding":       weighed[*embedding](many(`{"all":[`, `{}`, `]}`)),
	} {
		t.Run(name, weighs)
	}
}

// embedding is of a type whose elements hold more than meets the eye.
type embedding struct {
	metav1.PartialObjectMetadata `json:",inline"`
	All                          []struct {
		*corev1.PodSpec `json:",inline"`
		Name            [10]int `json:"name"`
	} `json:"all"`
	Embedded
	Reference `json:"reference"`
	inner     `json:",inline"`
}

// Embedded is not a struct, so it is a field of that name.
type Embedded map[string]string

// Reference has a JSON name, so it hides no field of inner.
type Reference struct {
	Name string `json:"name"`
}

type inner struct {
	Name []corev1.Container `json:"name"`
}

func (e *embedding) DeepCopyObject() runtime.Object { return e }

// weighed compares the weight of an object with its memory.
func weighed[T object.Object](raw string) func(t *testing.T) {
	return func(t *testing.T) {
		weight := wire.EstimateJSONMemory([]byte(raw), reflect.TypeFor[T]())
		var err error
		hostile.Budget{Memory: 1<<20 + 3*int(weight)}.Within(t, 0, func() { err = kjson.UnmarshalCaseSensitivePreserveInts([]byte(raw), new(T)) })
		require.NoError(t, err)
	}
}

// An object of a conversion that becomes too many bytes is not decoded, and what it takes is
// given back.
func TestAConversionDoesNotGrow(t *testing.T) {
	const pod = `{"apiVersion":"v1","kind":"Pod","spec":{"containers":[%s{}]}}`
	convert := NewConversion[*corev1.Pod](corev1.SchemeGroupVersion)
	v2 := corev1.SchemeGroupVersion
	v2.Version = "v2"
	none := func(context.Context, *corev1.Pod, *corev1.Pod) error { return nil }
	Spoke(convert, v2, none, none)
	c := &call{log: slog.New(slog.DiscardHandler), conversion: newBudget(conversionBudget)}
	ask := func(containers, perByte int) string {
		body := fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u","desiredAPIVersion":"v2","objects":[`+pod+`]}}`, strings.Repeat("{},", containers))
		var w *httptest.ResponseRecorder
		hostile.Budget{Memory: 1 << 20, MemoryPerByte: perByte}.Within(t, len(body), func() {
			w = httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
			convert.ServeHTTP(w, r.WithContext(context.WithValue(t.Context(), callKey{}, c)))
		})
		require.EqualValues(t, conversionBudget, c.conversion.left.Load(), "it was given back")
		return w.Body.String()
	}
	require.Contains(t, ask(20, 2000), "Success")
	require.Contains(t, ask(1000, 100), "too much memory for its size")
	require.Contains(t, ask(1<<20, 6), "the decoded object is larger than 67108864 bytes")
}

// Converted objects count until the response is sent: they may be larger than the request.
func TestMemoryOfAConversionIsCounted(t *testing.T) {
	const room = 1 << 20
	convert := NewConversion[*corev1.ConfigMap](corev1.SchemeGroupVersion)
	none := func(context.Context, *corev1.ConfigMap, *corev1.ConfigMap) error { return nil }
	Spoke(convert, schema.GroupVersion{Version: "v2"}, none, func(_ context.Context, in, out *corev1.ConfigMap) error {
		out.Data = map[string]string{"a": strings.Repeat(in.Data["a"], 6)}
		return nil
	})
	c := &call{log: slog.New(slog.DiscardHandler), conversion: newBudget(room)}
	ask := func(objects int) string {
		each := `{"apiVersion":"v1","kind":"ConfigMap","data":{"a":"` + strings.Repeat("<", 16<<10) + `"}}`
		body := `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u","desiredAPIVersion":"v2","objects":[` + strings.Repeat(each+",", objects-1) + each + `]}}`
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		convert.ServeHTTP(w, r.WithContext(context.WithValue(t.Context(), callKey{}, c)))
		require.EqualValues(t, room, c.conversion.left.Load(), "it was given back")
		return w.Body.String()
	}
	require.Contains(t, ask(2), "Success")
	require.Contains(t, ask(15), "convert ConfigMap from v1 to v2: not enough memory left for the results")
}

// A real pod is far below the limits.
func TestWeightOfARealPod(t *testing.T) {
	const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-5d8f","namespace":"shop","uid":"63cb1b8e-8ba7-4b3c-9d6c-5b2d0f1ee0f1","labels":{"app":"web","pod-template-hash":"5d8f"},` +
		`"managedFields":[{"manager":"kubelet","operation":"Update","fieldsType":"FieldsV1","fieldsV1":{"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{".":{},"f:status":{}}}}}}]},` +
		`"spec":{"containers":[{"name":"web","image":"registry.example.com/web:1","env":[{"name":"A","value":"b"}],"resources":{"limits":{"cpu":"1","memory":"1Gi"}},"volumeMounts":[{"name":"token","mountPath":"/var/run/secrets"}]}],` +
		`"volumes":[{"name":"token","projected":{"sources":[{"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}}]}}],"tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}]},` +
		`"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"}],"podIPs":[{"ip":"10.0.0.1"}]}}`
	weight := wire.EstimateJSONMemory([]byte(pod), reflect.TypeFor[*corev1.Pod]())
	require.Less(t, weight, int64(10*len(pod)))
}

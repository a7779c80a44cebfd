package wire

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace-dev/millrace/object"
)

func TestUnmarshalJSON(t *testing.T) {
	p, err := UnmarshalJSON[*corev1.Pod]([]byte(` {"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"a-"},"spec":{"overhead":{"cpu":"1e3"}}} `), podKind)
	require.NoError(t, err)
	require.Equal(t, "a-", p.GenerateName)
	require.Equal(t, "Pod", p.Kind)
	require.Equal(t, "1e3", p.Spec.Overhead.Cpu().String())
	u, err := UnmarshalJSON[*unstructured.Unstructured]([]byte(`{"apiVersion":"v1","kind":"X","n":1}`), object.GVK{Version: "v1", Kind: "X"})
	require.NoError(t, err)
	require.Equal(t, map[string]any{"apiVersion": "v1", "kind": "X", "n": int64(1)}, u.Object)
}

// The object must name the expected kind itself.
func TestUnmarshalJSONRefusesOtherKinds(t *testing.T) {
	deployment := object.GVK{Group: "apps", Version: "v1", Kind: "Deployment"}
	for body, got := range map[string]string{
		`{}`:                                   "the body specifies no kind",
		`{"kind":"Deployment"}`:                `got "" "Deployment"`,
		`{"apiVersion":"apps/v1"}`:             `got "apps/v1" ""`,
		`{"apiVersion":"v1","kind":"Pod"}`:     `got "v1" "Pod"`,
		`{"apiVersion":"v1","kind":"PodList"}`: `got "v1" "PodList"`,
		`{"apiVersion":"apps/v1","kind":"Deployment","kind":"Pod"}`:      `got "apps/v1" "Pod"`,
		`{"apiVersion":"apps/v1","Kind":"Deployment"}`:                   `got "apps/v1" ""`,
		`{"apiVersion":"apps/v1","kind":7}`:                              `got "apps/v1" ""`,
		`{"apiVersion":"apps/v1beta1","kind":"Deployment"}`:              `got "apps/v1beta1" "Deployment"`,
		`{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadata"}`: `got "meta.k8s.io/v1" "PartialObjectMetadata"`,
	} {
		_, typed := UnmarshalJSON[*appsv1.Deployment]([]byte(body), deployment)
		_, untyped := UnmarshalJSON[*unstructured.Unstructured]([]byte(body), deployment)
		_, metadata := UnmarshalJSON[*metav1.PartialObjectMetadata]([]byte(body), deployment)
		for _, err := range []error{typed, untyped, metadata} {
			require.ErrorIs(t, err, ErrKind, body)
			require.ErrorContains(t, err, got+", want apps/v1 Deployment")
		}
	}
	_, err := UnmarshalJSON[*appsv1.Deployment]([]byte(`{}`), object.GVK{})
	require.ErrorIs(t, err, ErrKind)
}

// Untrusted input is refused before apimachinery computes with it.
func TestW02_UnmarshalJSONIsGuarded(t *testing.T) {
	for body, want := range map[string]error{
		podText(`"overhead":{"cpu":"1e-999999999"}`):                                                  ErrQuantity,
		podText(`"overhead":{"cpu":"1\u0065-999999999"}`):                                             ErrQuantity,
		podText(`"containers":[` + strings.Repeat("0,", 1<<16) + `0]`):                                ErrTooDense,
		podText(`"x":` + strings.Repeat("[", defaultMaxDepth) + strings.Repeat("]", defaultMaxDepth)): ErrTooDeep,
		podText("") + ` {}`:       ErrSyntax,
		`{"metadata":{"name":"a"`: io.ErrUnexpectedEOF,
		" ":                       io.ErrUnexpectedEOF,
		"":                        io.ErrUnexpectedEOF,
		`null`:                    ErrSyntax,
		`OK`:                      ErrSyntax,
		`42`:                      ErrSyntax,
		`{"apiVersion":"v1","kind":"Pod","metadata":{"creationTimestamp":"hunter2"}}`:   ErrSyntax,
		`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":["hunter2"]}}`: ErrSyntax,
	} {
		n := allocated(func() {
			_, err := UnmarshalJSON[*corev1.Pod]([]byte(body), podKind)
			require.ErrorIs(t, err, want, "%.100s", body)
			require.NotContains(t, err.Error(), "hunter2")
		})
		require.Less(t, n, 1<<20+10*uint64(len(body)), "%.100s", body)
	}
}

package wire

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestUnmarshalJSON(t *testing.T) {
	p, err := UnmarshalJSON[*corev1.Pod]([]byte(` {"kind":"Anything","metadata":{"generateName":"a-"},"spec":{"overhead":{"cpu":"1e3"}}} `))
	require.NoError(t, err)
	require.Equal(t, "a-", p.GenerateName)
	require.Equal(t, "1e3", p.Spec.Overhead.Cpu().String())
	u, err := UnmarshalJSON[*unstructured.Unstructured]([]byte(`{"apiVersion":"v1","kind":"X","n":1}`))
	require.NoError(t, err)
	require.Equal(t, map[string]any{"apiVersion": "v1", "kind": "X", "n": int64(1)}, u.Object)
}

// What strangers send is refused before apimachinery computes with it.
func TestW02_UnmarshalJSONIsGuarded(t *testing.T) {
	for body, want := range map[string]error{
		podText(`"overhead":{"cpu":"1e-999999999"}`):                                                  ErrQuantity,
		podText(`"overhead":{"cpu":"1\u0065-999999999"}`):                                             ErrQuantity,
		podText(`"containers":[` + strings.Repeat("0,", 1<<16) + `0]`):                                ErrSyntax,
		podText(`"x":` + strings.Repeat("[", DefaultMaxDepth) + strings.Repeat("]", DefaultMaxDepth)): ErrTooDeep,
		`{"metadata":{"name":"a"}} {}`:                                                                ErrSyntax,
		`{"metadata":{"name":"a"`:                                                                     io.ErrUnexpectedEOF,
		" ":                                                                                           io.ErrUnexpectedEOF,
		"":                                                                                            io.ErrUnexpectedEOF,
		`null`:                                                                                        ErrSyntax,
		`OK`:                                                                                          ErrSyntax,
		`42`:                                                                                          ErrSyntax,
		`{"metadata":{"creationTimestamp":"hunter2"}}`:   ErrSyntax,
		`{"metadata":{"name":"a","labels":["hunter2"]}}`: ErrSyntax,
	} {
		n := allocated(func() {
			_, err := UnmarshalJSON[*corev1.Pod]([]byte(body))
			require.ErrorIs(t, err, want, "%.100s", body)
			require.NotContains(t, err.Error(), "hunter2")
		})
		require.Less(t, n, 1<<20+10*uint64(len(body)), "%.100s", body)
	}
}

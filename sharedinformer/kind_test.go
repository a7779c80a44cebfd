package sharedinformer

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/object"
)

// kinded is a source that is asked for its kind.
type kinded struct {
	stubborn
	kind func() object.GVK
}

func (k kinded) Kind() object.GVK { return k.kind() }

// Whoever looks at an informer must not wait for its source, nor be hit by it.
func TestTheStatusDoesNotAskTheSourceForItsKind(t *testing.T) {
	asked, thing := 0, object.GVK{Version: "v1", Kind: "Thing"}
	i := New[partial](kinded{kind: func() object.GVK { asked++; return thing }}, Options{})
	for range 3 {
		require.Equal(t, thing, i.Status().Kind)
	}
	require.Equal(t, 1, asked)
	i = New[partial](kinded{kind: func() object.GVK { panic("sad") }}, Options{})
	require.Empty(t, i.Status().Kind)
}

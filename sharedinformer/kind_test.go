package sharedinformer

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/source"
)

// kinded is a source that is asked for its kind.
type kinded struct {
	stubborn
	kind func() object.GVK
}

func (k kinded) Describe() source.Description { return source.Description{Kind: k.kind()} }

// Whoever looks at an informer must not be hit by its source, which is asked for the kind once.
func TestTheStatusDoesNotAskTheSourceForItsKind(t *testing.T) {
	thing := object.GVK{Version: "v1", Kind: "Thing"}
	kind := func() object.GVK { return thing }
	i := New[partial](kinded{kind: func() object.GVK { return kind() }}, Options{})
	kind = func() object.GVK { panic("sad") }
	require.Equal(t, thing, i.Status().Kind)
	i = New[partial](kinded{kind: kind}, Options{})
	require.Empty(t, i.Status().Kind)
}

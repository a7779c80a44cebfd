package sharedinformer

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// shallow is an object that cannot be copied.
type shallow struct{ *metav1.PartialObjectMetadata }

func (*shallow) DeepCopyObject() apiruntime.Object { return nil }

type shallows struct{}

func (shallows) Describe() source.Description { return source.Description{} }

func (shallows) List(context.Context, source.Request) source.List[object.Head] {
	return source.List[object.Head]{Meta: &metav1.ListMeta{ResourceVersion: "5"}, Items: func(yield func(object.Head, error) bool) {
		yield(&shallow{thing("x", 1, 4)}, nil)
	}}
}

func (shallows) Watch(context.Context, source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	return nil, errors.New("not asked")
}

// Nor does an object whose methods panic end the process.
func TestAnObjectThatPanicsEndsTheRun(t *testing.T) {
	i := New[*shallow](shallows{}, Options{Initial: reflector.List, DetectMutations: time.Hour})
	err := i.Run(t.Context())
	require.ErrorContains(t, err, "a method of an object panicked: interface conversion")
	require.NotContains(t, err.Error(), "Goexit")
	require.ErrorIs(t, i.Run(t.Context()), err)
	require.ErrorIs(t, i.Status().Failure, err)
}

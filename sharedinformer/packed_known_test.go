package sharedinformer

import (
	"context"
	"fmt"
	"io"
	"iter"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// recorded is a source whose watch delivers recorded events.
type recorded struct {
	listing[*corev1.Pod]
	body string
}

func (recorded) Describe() source.Description { return source.Description{Reuses: true} }

func (r recorded) Watch(_ context.Context, req source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	dec, err := wire.NewDecoder(wire.MediaJSON, wire.Options{Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Type: reflect.TypeFor[*corev1.Pod]()})
	if err != nil {
		return nil, err
	}
	return dec.Watch(io.NopCloser(strings.NewReader(r.body)), req.Known), nil
}

// A decoder reads ahead: a known object may be looked up before an earlier change was applied.
func TestC01_AKnownObjectMayComeBehindAChange(t *testing.T) {
	packer := wire.NewPacker(nil)
	p := podOf(0, 2)
	p.Spec.NodeName = "n"
	packed, err := packer.Pack(p)
	require.NoError(t, err)
	var body strings.Builder
	for n := range 200 {
		fmt.Fprintf(&body, `{"type":"MODIFIED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"namespace":"a","name":"other","uid":"o","resourceVersion":"%d"}}}`+"\n", 10+n)
		body.WriteString(`{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"namespace":"a","name":"0","uid":"u","resourceVersion":"2"},"spec":{"nodeName":"n"},"status":{"message":"` + strings.Repeat("x", 5000) + `"}}}` + "\n")
	}
	from := source.Complete(recorded{body: body.String()})
	events, err := from.Watch(t.Context(), source.Request{Packer: packer, Known: func(key object.Key) (object.Head, bool) {
		return packed, key.Name == "0"
	}})
	require.NoError(t, err)
	lost := 0
	for e, err := range events {
		if err != nil {
			break
		}
		time.Sleep(time.Millisecond) // a consumer that takes its time
		if e.Object.GetName() != "0" {
			continue
		}
		opened, err := packedOf(e.Object).Open()
		require.NoError(t, err)
		if opened.(*corev1.Pod).Spec.NodeName != "n" {
			lost++
		}
	}
	require.Zero(t, lost, "objects lost their content")
}

// pointed embeds its metadata by a pointer.
type pointed struct {
	metav1.TypeMeta    `json:",inline"`
	*metav1.ObjectMeta `json:"metadata"`
}

func (d *pointed) DeepCopyObject() runtime.Object {
	c := *d
	c.ObjectMeta = d.ObjectMeta.DeepCopy()
	return &c
}

func TestPlaceholderWithAPointerToItsMetadata(t *testing.T) {
	packed, err := wire.NewPacker(nil).Pack(&pointed{ObjectMeta: &metav1.ObjectMeta{Name: "a", ResourceVersion: "3"}})
	require.NoError(t, err)
	_, ok := packed.Placeholder()
	require.False(t, ok)
}

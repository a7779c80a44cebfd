package rest

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire"
)

type conditioned interface {
	object.Object
	Conditions() []string
}

func counted(t *testing.T) (*Client, *atomic.Int32) {
	var requests atomic.Int32
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		w.Header().Set("Content-Type", wire.MediaJSON)
		w.Write(encode(t, wire.MediaJSON, kindPod, pod("a")))
	}), &requests
}

// An interface that the Go type of the kind does not implement is rejected before a
// request is sent.
func TestAChangeOfAnInterfaceThatTheKindLacks(t *testing.T) {
	c, requests := counted(t)
	r := ResourceForKind[conditioned](c, kindPod)
	var err error
	require.NotPanics(t, func() {
		_, err = r.Change(context.Background(), object.Key{Namespace: "default", Name: "a"}, func(conditioned) error { return nil }, ChangeOptions{})
	})
	require.ErrorIs(t, err, wire.ErrKind)
	require.Zero(t, requests.Load())
}

func TestAPatchOfAnInterfaceThatTheKindLacks(t *testing.T) {
	c, requests := counted(t)
	r := ResourceForKind[conditioned](c, kindPod)
	_, err := r.Patch(context.Background(), object.Key{Namespace: "default", Name: "a"}, "application/merge-patch+json", []byte(`{"x":1}`), metav1.PatchOptions{})
	require.ErrorIs(t, err, wire.ErrKind)
	require.Zero(t, requests.Load())
}

func TestUnmarshalJSONOfAnInterfaceThatTheKindLacks(t *testing.T) {
	o, err := wire.UnmarshalJSON[conditioned](encode(t, wire.MediaJSON, kindPod, pod("a")), kindPod)
	require.ErrorIs(t, err, wire.ErrKind)
	require.Nil(t, o)
}

package laws

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/snapshot"
)

// policy is a custom resource for which an empty list and no list differ: without a list everything is
// allowed, with an empty one nothing.
type policy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Allowed           []string `json:"allowed,omitempty"`
}

func (p *policy) DeepCopyObject() runtime.Object {
	d := *p
	p.ObjectMeta.DeepCopyInto(&d.ObjectMeta)
	if p.Allowed != nil {
		d.Allowed = append([]string{}, p.Allowed...)
	}
	return &d
}

var policyKind = object.GVK{Group: "example.com", Version: "v1", Kind: "Policy"}

func policies() apiservertest.Resource {
	return apiservertest.Resource{GVR: policyKind.GroupVersion().WithResource("policies"), Kind: "Policy", Namespaced: true}
}

func (r *rig) putPolicy() object.Key {
	r.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": "shop", "name": "none"}, "allowed": []any{}}}
	u.SetGroupVersionKind(policyKind)
	_, err := r.srv.Create(u)
	require.NoError(r, err)
	return object.KeyOf(u)
}

// allowed returns the list in the cache of an informer.
func (r *rig) allowed(opts sharedinformer.Options, key object.Key) []string {
	r.Helper()
	from := rest.ResourceForKind[*policy](r.client, policyKind).Source()
	if opts.TransformVersion != "" {
		from = reflector.Transformed(from, func(p *policy) (*policy, error) { p.ManagedFields = nil; return p, nil })
	}
	i := newInformer[*policy](from, opts)
	stop := r.run(i)
	defer stop()
	require.NoError(r, i.WaitForSync(r.ctx))
	p, ok := i.Cache().Get(key)
	require.True(r, ok)
	time.Sleep(time.Hour)
	return p.Allowed
}

// An informer that starts from a snapshot holds the objects of its predecessor, which the server still has.
func TestC02_ASnapshotKeepsEmptyLists(t *testing.T) {
	dir := t.TempDir()
	inBubble(t, apiservertest.Options{Resources: []apiservertest.Resource{policies()}}, func(r *rig) {
		key := r.putPolicy()
		opts := sharedinformer.Options{Snapshot: snapshot.In(dir, snapshot.Options{})}
		require.NotNil(r, r.allowed(opts, key), "as listed")
		require.NotNil(r, r.allowed(opts, key), "as restored")
	})
}

// A packed cache holds what a whole one does.
func TestC01_APackedCacheKeepsEmptyLists(t *testing.T) {
	for _, store := range []sharedinformer.Store{sharedinformer.Whole, sharedinformer.Packed} {
		t.Run(store.String(), func(t *testing.T) {
			inBubble(t, apiservertest.Options{Resources: []apiservertest.Resource{policies()}}, func(r *rig) {
				key := r.putPolicy()
				require.NotNil(r, r.allowed(sharedinformer.Options{Store: store, TransformVersion: "1"}, key))
			})
		})
	}
}

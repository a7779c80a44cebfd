package laws

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/wire"
)

// An informer caches the server's objects without the dropped fields, whether the objects arrive by a
// list, a streaming list or a watch. The informer itself does not use other fields of the type.
func TestW04_InformersCacheOnlySelectedFields(t *testing.T) {
	managed := func(name, node string) *corev1.Pod {
		p := pod(name, "app=web")
		p.ManagedFields = []metav1.ManagedFieldsEntry{{
			Manager: "kubelet", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1",
			FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{}}`)},
		}}
		p.Spec.NodeName = node
		p.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
		return p
	}
	for keep, cut := range map[wire.Fields]func(*corev1.Pod){
		wire.WithoutManagedFields: func(p *corev1.Pod) { p.ManagedFields = nil },
		wire.Only("spec.nodeName"): func(p *corev1.Pod) {
			p.ObjectMeta = metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion}
			p.Spec, p.Status = corev1.PodSpec{NodeName: p.Spec.NodeName}, corev1.PodStatus{}
		},
	} {
		for _, initial := range []reflector.Initial{reflector.WatchList, reflector.List} {
			inBubble(t, apiservertest.Options{}, func(r *rig) {
				r.put(managed("a", "n1"))
				r.put(managed("b", "n1"))
				f, stop := r.started(factory.Options{
					Initial: initial,
					Keep:    keep,
				})
				defer stop()
				i := factory.Informer[*corev1.Pod](f)
				heard := record(r.T, i)
				i.AddHandler(heard)
				began := time.Now()
				require.NoError(r, f.WaitForSync(r.ctx))
				require.Zero(r, time.Since(began), "%s, %s", keep, initial)

				agree := func(names ...string) {
					r.Helper()
					synctest.Wait()
					require.Len(r, names, i.Cache().Len())
					for _, name := range names {
						key := object.Key{Namespace: "shop", Name: name}
						stored, err := r.srv.Get(pods, key)
						require.NoError(r, err)
						want := stored.(*corev1.Pod).DeepCopy()
						require.NotEmpty(r, want.ManagedFields)
						cut(want)
						want.TypeMeta = metav1.TypeMeta{}
						got, _ := i.Cache().Get(key)
						require.Equal(r, want, got, "%s, %s", keep, initial)
					}
				}
				agree("a", "b")
				r.put(managed("a", "n2"))
				r.put(managed("c", "n3"))
				r.delete("b")
				agree("a", "c")
			})
		}
	}
}

// A field that the type does not have is reported by its name.
func TestW04_UnknownFieldsAreReported(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		f, stop := r.started(factory.Options{})
		defer stop()
		factory.InformerWith(f, forPods{Keep: wire.Only("spec.node")})
		err := f.WaitForSync(r.ctx)
		require.ErrorIs(r, err, wire.ErrFields)
		require.ErrorContains(r, err, `not synced: pods: `)
		require.ErrorContains(r, err, `no such field: "spec.node" of v1.Pod: "spec" has no "node", did you mean "nodeName"?`)
	})
}

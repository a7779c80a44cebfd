package torture

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
)

// names is the largest number of objects of a kind in a namespace.
const names = 10

// workload writes to the servers all the time, bypassing all links, while they answer.
type workload struct {
	w       *world
	writes  atomic.Int64 // successful
	refused atomic.Int64 // failed, or with an unknown result

	pause  sync.RWMutex // held by a write in progress
	cancel context.CancelFunc
	all    sync.WaitGroup
}

func newWorkload(w *world, seed uint64) *workload {
	b := &workload{w: w}
	var ctx context.Context
	ctx, b.cancel = context.WithCancel(context.Background())
	for n := range 2 {
		r := rand.New(rand.NewPCG(seed, uint64(n)))
		b.all.Go(func() {
			for ctx.Err() == nil {
				b.pause.RLock()
				b.write(ctx, r)
				b.pause.RUnlock()
				time.Sleep(time.Duration(10+r.IntN(20)) * time.Millisecond)
			}
		})
	}
	return b
}

// rest waits for the writes in progress. No write starts before resume.
func (b *workload) rest()   { b.pause.Lock() }
func (b *workload) resume() { b.pause.Unlock() }

func (b *workload) stop() {
	b.cancel()
	b.all.Wait()
}

// write makes a random write to one object.
func (b *workload) write(ctx context.Context, r *rand.Rand) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	client := b.w.direct[r.IntN(2)]
	meta := metav1.ObjectMeta{
		Namespace: b.w.namespaces[r.IntN(len(b.w.namespaces))], Name: fmt.Sprint("o-", r.IntN(names)),
		Labels: map[string]string{"app": fmt.Sprint("app-", r.IntN(3)), "n": fmt.Sprint(r.IntN(1000))},
	}
	var err error
	switch r.IntN(4) {
	case 0:
		pod := &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx"}}}}
		err = change(ctx, r, rest.ResourceFor[*corev1.Pod](client), pod, nil)
	case 1:
		data := map[string]string{"n": fmt.Sprint(r.Int())}
		err = change(ctx, r, rest.ResourceFor[*corev1.ConfigMap](client), &corev1.ConfigMap{ObjectMeta: meta, Data: data}, map[string]any{"data": data})
	case 2:
		data := map[string][]byte{"n": fmt.Append(nil, r.Int())}
		err = change(ctx, r, rest.ResourceFor[*corev1.Secret](client), &corev1.Secret{ObjectMeta: meta, Data: data}, map[string]any{"data": data})
	case 3:
		u := &unstructured.Unstructured{Object: map[string]any{}}
		if r.IntN(2) == 0 {
			u.Object["spec"] = map[string]any{"n": fmt.Sprint(r.Int())}
		}
		u.SetNamespace(meta.Namespace)
		u.SetName(meta.Name)
		u.SetLabels(meta.Labels)
		err = change(ctx, r, rest.ResourceForKind[*unstructured.Unstructured](client, gadgetKind), u, map[string]any{"spec": map[string]any{"n": fmt.Sprint(r.Int())}})
	}
	if err != nil {
		b.refused.Add(1)
		return
	}
	b.writes.Add(1)
}

// change creates, patches, replaces or deletes an object, whichever is possible.
func change[T object.Object](ctx context.Context, r *rand.Rand, in *rest.Resource[T], o T, more map[string]any) error {
	key, now := object.KeyOf(o), metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}
	patch := map[string]any{"metadata": map[string]any{"labels": o.GetLabels()}}
	for field, value := range more {
		patch[field] = value
	}
	switch r.IntN(8) {
	case 0:
		return in.Delete(ctx, key, now)
	case 1: // a new object of the same name
		if err := in.Delete(ctx, key, now); err != nil {
			return err
		}
		_, err := in.Create(ctx, o, metav1.CreateOptions{})
		return err
	}
	_, err := in.Patch(ctx, key, types.MergePatchType, marshal(patch), metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		_, err = in.Create(ctx, o, metav1.CreateOptions{})
	}
	return err
}

func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // encoding a literal
	}
	return b
}

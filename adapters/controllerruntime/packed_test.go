package controllerruntime_test

import (
	"reflect"
	"runtime"
	"strconv"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/millrace-dev/millrace/adapters/clientgo"
	"github.com/millrace-dev/millrace/adapters/controllerruntime"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/wire"
)

// statusOf returns the status of the cache's only informer.
func (r *rig) statusOf(c cache.Cache) sharedinformer.Status {
	all := c.(*controllerruntime.Cache).Status()
	require.Len(r, all, 1)
	return all[0]
}

// forget reads other objects until none of the earlier ones is in use.
func (r *rig) forget() {
	r.Helper()
	settle(time.Second)
	for n := range 100 {
		r.put(pod("busy", strconv.Itoa(n), "busy"))
	}
	settle(time.Second)
	runtime.GC()
}

// Objects read as copies are cached packed by default.
func TestStores(t *testing.T) {
	inPlace := cache.Options{DefaultUnsafeDisableDeepCopy: new(true)}
	ofPods := cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {UnsafeDisableDeepCopy: new(true)}}}
	for _, tc := range []struct {
		name  string
		store sharedinformer.Store
		opts  cache.Options
		want  sharedinformer.Store
	}{
		{"copied", sharedinformer.DefaultStore, cache.Options{}, sharedinformer.Packed},
		{"in place", sharedinformer.DefaultStore, inPlace, sharedinformer.Whole},
		{"in place by kind", sharedinformer.DefaultStore, ofPods, sharedinformer.Whole},
		{"whole", sharedinformer.Whole, cache.Options{}, sharedinformer.Whole},
		{"in place and packed", sharedinformer.Packed, inPlace, sharedinformer.Packed},
	} {
		on(t, side{tc.name, controllerruntime.Options{Store: tc.store}.NewCache}, func(r *rig) {
			c := r.running(tc.opts)
			_, err := c.GetInformer(r.ctx, &corev1.Pod{})
			require.NoError(r, err)
			require.Equal(r, tc.want, r.statusOf(c).Store)
		})
	}
}

// A read decodes only the object that it returns, and the object belongs to the caller.
func TestReadReturnsANewObject(t *testing.T) {
	on(t, newCache, func(r *rig) {
		for n := range 10 {
			r.put(pod("shop", strconv.Itoa(n), []string{"web", "db"}[n%2]))
		}
		c := r.running(cache.Options{})
		require.NoError(r, c.IndexField(r.ctx, &corev1.Pod{}, "app", appOf))
		r.forget()
		made := func(want uint64, read func()) {
			r.Helper()
			before := r.statusOf(c).Packed.Opened
			read()
			require.Equal(r, want, r.statusOf(c).Packed.Opened-before)
		}
		in := client.InNamespace("shop")
		made(10, func() { require.Len(r, r.names(c, in), 10) })
		made(5, func() { require.Len(r, r.names(c, in, client.MatchingLabels{"app": "db"}), 5) })
		made(5, func() { require.Len(r, r.names(c, client.MatchingFields{"app": "db"}), 5) })
		made(2, func() { require.Len(r, r.names(c, in, client.Limit(2)), 2) })
		var p corev1.Pod
		made(1, func() { require.NoError(r, c.Get(r.ctx, key("shop", "3"), &p)) })
		p.Labels["app"] = "changed"
		var again corev1.Pod
		require.NoError(r, c.Get(r.ctx, key("shop", "3"), &again, client.UnsafeDisableDeepCopy)) // in use from here on
		made(0, func() { require.NoError(r, c.Get(r.ctx, key("shop", "3"), &p)) })
		p.Labels["app"] = "changed"
		require.Equal(r, "db", again.Labels["app"])
	})
}

// A damaged object is neither served nor reported as not found, and it is fetched again.
func TestDamagedObjectsAreErrors(t *testing.T) {
	on(t, newCache, func(r *rig) {
		r.put(pod("shop", "a", "web"), pod("shop", "b", "web"))
		c := r.running(cache.Options{})
		require.NoError(r, c.IndexField(r.ctx, &corev1.Pod{}, "app", appOf))
		i, err := c.GetInformer(r.ctx, &corev1.Pod{})
		require.NoError(r, err)
		heads, ok := clientgo.HeadsOf(i.(toolscache.SharedIndexInformer))
		require.True(r, ok)
		flip := func() {
			r.Helper()
			head, ok := heads.Get(object.Key{Namespace: "shop", Name: "a"})
			require.True(r, ok)
			text := reflect.ValueOf(head.(*wire.Packed)).Elem().FieldByName("text").FieldByName("data").String()
			*(*byte)(unsafe.Add(unsafe.Pointer(unsafe.StringData(text)), len(text)-2)) ^= 1
		}
		r.forget()
		flip()
		var p corev1.Pod
		err = c.Get(r.ctx, key("shop", "a"), &p)
		require.ErrorIs(r, err, wire.ErrDamaged)
		require.ErrorContains(r, err, "shop/a")
		for _, opts := range [][]client.ListOption{nil, {client.InNamespace("shop")}, {client.MatchingFields{"app": "web"}}} {
			require.ErrorIs(r, c.List(r.ctx, &corev1.PodList{}, opts...), wire.ErrDamaged)
		}
		settle(time.Minute)
		require.NoError(r, c.Get(r.ctx, key("shop", "a"), &p))
		require.Equal(r, []string{"shop/a", "shop/b"}, r.names(c, client.InNamespace("shop")))
	})
}

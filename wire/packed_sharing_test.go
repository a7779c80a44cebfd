package wire

import (
	"reflect"
	"runtime"
	"strconv"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/scheme"
)

// States of one packed object that are open at the same time, such as those of an update, do not
// count as two objects, and neither does one state opened twice. Other objects do.
func TestW03_StatesOfAPackedObjectAreOneUser(t *testing.T) {
	kind := corev1.SchemeGroupVersion.WithKind("Pod")
	for _, media := range []string{MediaProtobuf, MediaJSON} {
		t.Run(media, func(t *testing.T) {
			pool := NewPool()
			p := NewPacker(pool)
			decoder, err := p.Decoder(media, &Options{Type: reflect.TypeFor[*corev1.Pod](), Scheme: scheme.New(), Kind: kind, Pool: pool})
			require.NoError(t, err)
			open := func(name, rv string) *corev1.Pod {
				pod := replica(name)
				pod.ResourceVersion = rv
				packed, err := packedOf(decoder.Object(encodeAs(t, media, kind, pod)))
				require.NoError(t, err)
				require.False(t, packed.KeptWhole())
				opened, err := packed.Open()
				require.NoError(t, err)
				return opened.(*corev1.Pod)
			}
			var held []*corev1.Pod
			for n := range 8 {
				held = append(held, open("web-0", strconv.Itoa(n/2)))
			}
			require.Zero(t, pool.Len(), "parts that only one object has")
			for n := range 8 { // in a pool, names may be equal by chance, but not all of them
				held = append(held, open("web-"+strconv.Itoa(n), "9"))
			}
			require.NotZero(t, pool.Len())
			runtime.KeepAlive(held)
		})
	}
}

// An unreferenced packer is collected with everything it leads to, such as an informer with its
// cache through OnOpen.
func TestW03_PackerIsFreed(t *testing.T) {
	kind := corev1.SchemeGroupVersion.WithKind("Pod")
	type cache struct{ objects []*Packed }
	held := func() weak.Pointer[cache] {
		p, c := NewPacker(NewPool()), new(cache)
		p.OnOpen(func(*Packed, object.Object) { runtime.KeepAlive(c) })
		decoder, err := p.Decoder(MediaProtobuf, &Options{Type: reflect.TypeFor[*corev1.Pod](), Scheme: scheme.New(), Kind: kind})
		require.NoError(t, err)
		for n := range 100 {
			packed, err := packedOf(decoder.Object(encodeAs(t, MediaProtobuf, kind, replica("web-"+strconv.Itoa(n)))))
			require.NoError(t, err)
			_, err = packed.Open()
			require.NoError(t, err)
			_, ok := packed.Placeholder()
			require.True(t, ok)
			c.objects = append(c.objects, packed)
		}
		return weak.Make(c)
	}()
	require.Eventually(t, func() bool {
		runtime.GC()
		return held.Value() == nil
	}, 10*time.Second, time.Millisecond)
}

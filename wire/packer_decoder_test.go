package wire

import (
	"reflect"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// A protobuf decoder of Pods takes 240 KB and half a millisecond to make. A packer makes it once,
// even if many requests begin at the same time.
func TestAPackerMakesADecoderOnce(t *testing.T) {
	opts := typedAs[*corev1.Pod](Options{Kind: podKind})
	packer, begin := NewPacker(nil), make(chan struct{})
	made := make([]uintptr, 16)
	var all sync.WaitGroup
	for n := range made {
		all.Go(func() {
			<-begin
			if d, err := packer.Decoder(MediaProtobuf, &opts); err == nil {
				made[n] = reflect.ValueOf(d).Pointer()
			}
		})
	}
	close(begin)
	all.Wait()
	require.NotZero(t, made[0])
	for _, one := range made {
		require.Equal(t, made[0], one)
	}
	other := opts
	d, err := packer.Decoder(MediaProtobuf, &other)
	require.NoError(t, err)
	require.NotEqual(t, made[0], reflect.ValueOf(d).Pointer(), "of other options")
}

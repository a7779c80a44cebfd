package laws

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"reflect"
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// piped is a source without objects. Its watch reads from a pipe that a test writes to.
type piped struct {
	decoder wire.Decoder
	body    io.Reader
}

func (p *piped) Describe() source.Description { return source.Description{Name: "pods"} }

func (p *piped) List(context.Context, source.Request) source.List[object.Head] {
	return source.List[object.Head]{Meta: &metav1.ListMeta{ResourceVersion: "1"}, Items: func(func(object.Head, error) bool) {}}
}

func (p *piped) Watch(context.Context, source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	return p.decoder.Watch(p.body, nil), nil
}

func writeEvent(t *testing.T, w io.Writer, typ watch.EventType, p *corev1.Pod) {
	t.Helper()
	raw, err := p.Marshal()
	require.NoError(t, err)
	envelope, err := (&apiruntime.Unknown{TypeMeta: apiruntime.TypeMeta{APIVersion: "v1", Kind: "Pod"}, Raw: raw}).Marshal()
	require.NoError(t, err)
	frame, err := (&metav1.WatchEvent{Type: string(typ), Object: apiruntime.RawExtension{Raw: append([]byte("k8s\x00"), envelope...)}}).Marshal()
	require.NoError(t, err)
	_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...))
	require.NoError(t, err)
}

// versionOf returns the content shared by all pods changed at about the time n.
func versionOf(n int) *corev1.Pod {
	text := fmt.Sprintf("version-%020d", n/10)
	p := pod("p"+strconv.Itoa(n%500), "version="+text)
	p.UID, p.ResourceVersion = types.UID(p.Name), strconv.Itoa(n+2)
	p.Spec.Containers = []corev1.Container{{Name: "main", Image: text, Args: []string{text, text}}}
	return p
}

// However many events pass through an informer whose objects share parts, it keeps only the parts that
// its objects use, and none once the objects are gone (W03).
func TestW03_ChurnThroughAnInformer(t *testing.T) {
	wholeAlone(t)
	const events = 20_000
	pool := wire.NewPool()
	decoder, err := wire.NewDecoder(wire.MediaProtobuf, wire.Options{Type: reflect.TypeFor[*corev1.Pod](), Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Pool: pool})
	require.NoError(t, err)
	body, w := io.Pipe()
	i := newInformer[*corev1.Pod](&piped{decoder, body}, sharedinformer.Options{Initial: reflector.List})
	for _, lag := range []sharedinformer.Lag{sharedinformer.Unbounded, sharedinformer.Coalesce} {
		i.AddHandlerWith(sharedinformer.HandlerFuncs[*corev1.Pod]{}, sharedinformer.HandlerOptions{Lag: lag})
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- i.Run(ctx) }()
	require.NoError(t, i.WaitForSync(ctx))

	heap := func(n int) uint64 {
		require.NoError(t, i.WaitForRV(ctx, strconv.Itoa(n+2)))
		for range 3 {
			runtime.GC()
			runtime.Gosched()
		}
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	var early uint64
	for n := range events {
		writeEvent(t, w, map[bool]watch.EventType{true: watch.Added, false: watch.Modified}[n < 500], versionOf(n))
		if n == events/5 {
			early = heap(n)
			require.NotZero(t, pool.Len())
		}
	}
	late := heap(events - 1)
	t.Logf("%d KB after a fifth, %d KB at the end, %d parts", early>>10, late>>10, pool.Len())
	require.Less(t, late, early+early/10+512<<10)

	last := pod("last")
	last.UID, last.ResourceVersion = "last", strconv.Itoa(events+502)
	for n := events; n < events+500; n++ {
		writeEvent(t, w, watch.Deleted, versionOf(n))
	}
	heap(events + 499)
	writeEvent(t, w, watch.Added, last) // the log keeps the latest batch, which is now this batch
	for range 100 {
		if heap(events + 500); pool.Len() == 0 {
			break
		}
	}
	require.Zero(t, pool.Len(), "the informer holds nothing but the last pod")
	cancel()
	w.Close()
	require.NoError(t, <-ended)
}

package wire

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace-dev/millrace/object"
)

// poolBytes is how much a test's pool may hold in addition to the parts, for its marks and its
// table.
const poolBytes = (256 + 64) << 10

// heldBy returns how many bytes the last objects of each name hold after a watch has ended, and how
// many bytes of the body there are for each.
func heldBy[T object.Object](t *testing.T, media string, opts Options, body []byte) (held, objects int) {
	t.Helper()
	d := decoderOfType[T](t, media, opts)
	before := heapInUse()
	cache := make(map[string]T)
	for ev, err := range d.Watch(bytes.NewReader(body), nil) {
		require.NoError(t, err)
		cache[strings.Clone(ev.Object.GetName())] = ev.Object
	}
	held = int(int64(heapInUse()) - int64(before))
	runtime.KeepAlive(cache)
	runtime.KeepAlive(opts.Pool)
	return held, len(cache)
}

// ordinaryPod returns a Pod with a template that depends on n.
func ordinaryPod(name string, n int) *corev1.Pod {
	p := pod(name)
	for c := range 2 {
		container := corev1.Container{Name: fmt.Sprint("c", c), Image: fmt.Sprintf("registry.example.com/app:%d", n)}
		for e := range 10 {
			container.Env = append(container.Env, corev1.EnvVar{Name: fmt.Sprintf("VARIABLE_%d_%d", n, e), Value: fmt.Sprintf("some value of this variable %d", n)})
		}
		container.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: fmt.Sprintf("/healthz/of/%d", n)}}}
		p.Spec.Containers = append(p.Spec.Containers, container)
	}
	return p
}

// Sharing saves memory if objects repeat, and costs little if they do not repeat often enough: a
// part keeps its bytes only once, however deeply it nests, and versions of one object do not count.
func TestW03_SharingTakesLittleMemory(t *testing.T) {
	SkipUnderRace(t)
	const objects = 300
	pods := func(media string, replicas int) []byte {
		var b bytes.Buffer
		for r := range replicas {
			for i := range objects {
				b.Write(rawFrame(t, media, "MODIFIED", encodeAs(t, media, podKind, ordinaryPod(fmt.Sprintf("p%d-%d", i, r), i))))
			}
		}
		return b.Bytes()
	}
	widgets := func(versions int, spec func(i int) string) []byte {
		var b strings.Builder
		for v := range versions {
			for i := range objects {
				b.WriteString(added(widgetText(fmt.Sprint("w", i), spec(i)+fmt.Sprintf(`,"status":{"observed":%d}`, v))))
			}
		}
		return []byte(b.String())
	}
	ordinary := func(i int) string {
		return `{"workload":{"template":` + string(encodeAs(t, MediaJSON, podKind, ordinaryPod("p", i))) + `}}`
	}
	chart := func(i int) string {
		return `{"source":{"helm":{"release":{"values":"` + strings.Repeat(fmt.Sprintf("k%d: v", i), 2000) + `"}}}}`
	}
	pod := func(t *testing.T, media string, opts Options, body []byte) (int, int) {
		opts.Kind = podKind
		return heldBy[*corev1.Pod](t, media, opts, body)
	}
	widget := func(t *testing.T, media string, opts Options, body []byte) (int, int) {
		opts.Kind = widgetKind
		return heldBy[*unstructured.Unstructured](t, media, opts, body)
	}
	for name, c := range map[string]struct {
		held  func(*testing.T, string, Options, []byte) (int, int)
		media string
		body  []byte
		keep  Fields
		most  float64 // share of the memory without sharing
	}{
		"one of each, protobuf":      {pod, MediaProtobuf, pods(MediaProtobuf, 1), Fields{}, 1.02},
		"two replicas, protobuf":     {pod, MediaProtobuf, pods(MediaProtobuf, 2), Fields{}, 1.08},
		"two replicas, JSON":         {pod, MediaJSON, pods(MediaJSON, 2), Fields{}, 1.15},
		"eight replicas, protobuf":   {pod, MediaProtobuf, pods(MediaProtobuf, 8), Fields{}, 0.8},
		"eight replicas, JSON":       {pod, MediaJSON, pods(MediaJSON, 8), Fields{}, 0.8},
		"images of two, protobuf":    {pod, MediaProtobuf, pods(MediaProtobuf, 2), Only("spec.containers.image"), 1.1},
		"images of two, JSON":        {pod, MediaJSON, pods(MediaJSON, 2), Only("spec.containers.image"), 1.1},
		"versions of custom objects": {widget, MediaJSON, widgets(4, ordinary), Fields{}, 1.02},
		"versions of long texts":     {widget, MediaJSON, widgets(3, chart), Fields{}, 1.02},
	} {
		t.Run(name, func(t *testing.T) {
			alone, n := c.held(t, c.media, Options{Keep: c.keep}, c.body)
			shared, _ := c.held(t, c.media, Options{Keep: c.keep, Pool: NewPool()}, c.body)
			t.Logf("%d objects hold %d bytes each, and %d with a pool", n, alone/n, shared/n)
			require.Less(t, float64(shared-poolBytes), c.most*float64(alone))
		})
	}
}

// An object holds a few times its own bytes, however deeply its parts nest and however often each
// was seen.
func TestW03_DeepPartsHoldLittle(t *testing.T) {
	const depth, size = 240, 128 << 10
	text := strings.Repeat("x", size)
	maps, lists := strings.Repeat(`{"a":`, depth)+`"`+text+`"`+strings.Repeat(`}`, depth), strings.Repeat(`{"child":[`, depth)+`{"text":"`+text+`"}`+strings.Repeat(`]}`, depth)
	watch := func(spec, opening string, names ...string) []byte {
		var b strings.Builder
		for range 3 {
			// The innermost parts first, so that each is known before it appears inside another.
			for level := depth; level >= 0; level -= depth / 4 {
				inner := spec[level*len(opening):]
				inner = inner[:len(inner)-level*strings.Count(opening, "{")-level*strings.Count(opening, "[")]
				for _, name := range names {
					b.WriteString(added(widgetText(name, inner)))
				}
			}
		}
		return []byte(b.String())
	}
	for _, names := range [][]string{{"a"}, {"a", "b"}, {"a", "b", "c"}} {
		free, _ := heldBy[*unstructured.Unstructured](t, MediaJSON, Options{Kind: widgetKind, Pool: NewPool()}, watch(maps, `{"a":`, names...))
		require.Less(t, free, 5*len(names)*size, "without a Go type, %v", names)
		typed, _ := heldBy[*tree](t, MediaJSON, Options{Kind: widgetKind, Pool: NewPool()}, watch(lists, `{"child":[`, names...))
		require.Less(t, typed, 5*len(names)*size, "of a Go type, %v", names)
	}
}

// Dropped fields in the values of a map are not kept alive by their texts.
func TestW04_MapsKeepNoDroppedFields(t *testing.T) {
	body := []byte(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"k":{"kept":"short","dropped":"` + strings.Repeat("x", 1<<20) + `"}}}`)
	for _, pool := range []*Pool{nil, NewPool()} {
		d := decoderOfType[*atlas](t, MediaJSON, Options{Kind: widgetKind, Keep: Only("spec.kept"), Pool: pool})
		before := heapInUse()
		got, err := d.Object(body)
		require.NoError(t, err)
		require.Equal(t, "short", got.Spec["k"].Kept)
		require.Less(t, heapInUse(), before+512<<10)
		runtime.KeepAlive(got)
	}
	runtime.KeepAlive(body)
}

type atlas struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              map[string]struct {
		Kept    string `json:"kept"`
		Dropped string `json:"dropped"`
	} `json:"spec"`
}

func (a *atlas) DeepCopyObject() apiruntime.Object { return a }

// Values without their own memory, because their size is zero or they are so small that they share
// an allocation, are not shared: the pool would not notice when they are unused.
func TestW03_SmallThingsAreForgotten(t *testing.T) {
	pool := NewPool()
	d := decoderOfType[*smalls](t, MediaJSON, Options{Kind: widgetKind, Pool: pool})
	var body strings.Builder
	for i := range 300 {
		body.WriteString(added(widgetText(fmt.Sprint("w", i), fmt.Sprintf(`{"empty":{"unknown":%d},"list":[{"unknown":%d}],"tiny":"%dh0m0s"}`, i/3, i/3, i/3))))
	}
	_, err := readWatch(d, strings.NewReader(body.String()))
	require.NoError(t, err)
	requireForgotten(t, pool)
}

type smalls struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Empty *struct{}        `json:"empty"`
		List  []struct{}       `json:"list"`
		Tiny  *metav1.Duration `json:"tiny"`
	} `json:"spec"`
}

func (s *smalls) DeepCopyObject() apiruntime.Object { return s }

// An idle watch holds little, whatever it has read: it releases its buffers, the paths of an object
// with many fields, and the memory of workers.
func TestW03_WaitingWatchesHoldLittle(t *testing.T) {
	var wide func(depth int) string
	wide = func(depth int) string {
		if depth == 0 {
			return "1"
		}
		return `{"aa":` + wide(depth-1) + `,"bb":` + wide(depth-1) + `}`
	}
	many := strings.Repeat(added(widgetText("w", wide(4))), 4000)
	for name, body := range map[string]string{
		"many places":  added(widgetText("w", wide(1))) + added(widgetText("w", wide(2))) + added(widgetText("w", wide(16))),
		"large":        added(widgetText("w", `"`+strings.Repeat("x", 4<<20)+`"`)),
		"many objects": many,
		"brackets":     added(widgetText("w", strings.Repeat("[],", 0)+"["+strings.Repeat("[],", 1<<19)+"[]]")),
	} {
		d := decoderOfType[*unstructured.Unstructured](t, MediaJSON, Options{Kind: widgetKind, Pool: NewPool()})
		before, after := heapInUse(), uint64(0)
		end := readerFunc(func([]byte) (int, error) {
			after = heapInUse()
			return 0, io.EOF
		})
		for _, err := range d.Watch(io.MultiReader(strings.NewReader(body), end), nil) {
			require.NoError(t, err)
		}
		require.Less(t, int64(after)-int64(before), int64(1536<<10), name)
	}
}

// It also releases the batches of a burst, in any encoding.
func TestW03_BurstsLeaveLittle(t *testing.T) {
	const events = 20_000
	for _, media := range []string{MediaJSON, MediaProtobuf, MediaCBOR} {
		d := podDecoder(t, media, Options{})
		burst := bytes.Repeat(frameOf(t, media, "MODIFIED", podKind, pod("a")), events)
		read := func(n int) (waiting uint64) {
			passed := make(chan struct{})
			end := readerFunc(func([]byte) (int, error) {
				<-passed
				waiting = heapInUse()
				return 0, io.EOF
			})
			for _, err := range d.Watch(io.MultiReader(bytes.NewReader(burst[:n*len(burst)/events]), end), nil) {
				require.NoError(t, err)
				if n--; n == 0 {
					close(passed)
				}
			}
			return waiting
		}
		quiet, busy := read(1), read(events)
		require.Less(t, int64(busy)-int64(quiet), int64(64<<10), media)
		runtime.KeepAlive(burst)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// A hundred empty caches take almost no memory.
func TestFreshPoolsAndWatchesAreSmall(t *testing.T) {
	require.Less(t, allocated(func() { NewPool() }), uint64(4<<10))
	d := podDecoder(t, MediaProtobuf, Options{Pool: NewPool()})
	require.Less(t, allocated(func() {
		_, err := readWatch(d, strings.NewReader(""))
		require.NoError(t, err)
	}), uint64(8<<10))
}

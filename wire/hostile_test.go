package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace-dev/millrace/test/hostile"
	"github.com/millrace-dev/millrace/wire/internal/protobuf"
)

// allocated returns how many bytes f allocates in total.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Decoding a long list of an untyped object takes no more memory than the reference.
func TestW02_LongUntypedListsTakeNoMoreThanTheReference(t *testing.T) {
	const n = 20_000
	for _, element := range []string{"1", "12345", "1.5", "true", "null", `"a"`, "[]"} {
		body := []byte(podText(`"a":[` + strings.Repeat(element+",", n) + element + `]`))
		took := func(opts Options) uint64 {
			d := decoderOfType[*unstructured.Unstructured](t, MediaJSON, opts)
			return allocated(func() {
				_, err := d.Object(body)
				require.NoError(t, err)
			})
		}
		require.LessOrEqual(t, took(Options{Kind: podKind}), took(Options{Kind: podKind, Reference: true}), element)
	}
}

// Commas in text do not count as elements beyond a small multiple of their bytes.
func TestW02_CommasInTextAreNotElements(t *testing.T) {
	body := []byte(podText(`"a":"` + strings.Repeat(",", 1<<20) + `"`))
	d := decoderOfType[*unstructured.Unstructured](t, MediaJSON, Options{Kind: podKind})
	hostile.Budget{Memory: 1 << 20, MemoryPerByte: 25}.Within(t, len(body), func() {
		_, err := d.Object(body)
		require.NoError(t, err)
	})
}

// A wrong length costs no more memory than the bytes that follow it.
func TestW02_LengthsAreNotTrusted(t *testing.T) {
	const gigabyte = 1 << 30
	huge := Options{MaxObjectBytes: gigabyte + 1<<20}
	length := binary.AppendUvarint(nil, gigabyte)
	outer := binary.AppendUvarint(nil, gigabyte+100)
	list := []byte(protobuf.Magic + "\x0a\x0d\x0a\x02v1\x12\x07PodList\x12")
	list = append(append(append(list, outer...), 0x12), length...)
	n := allocated(func() {
		_, _, err := readList(podDecoder(t, MediaProtobuf, huge), bytes.NewReader(list))
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		_, err = readWatch(podDecoder(t, MediaProtobuf, huge), bytes.NewReader([]byte{0x40, 0, 0, 0, 1, 2, 3}))
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	})
	require.Less(t, n, uint64(1<<20))
}

// A value that is too large is refused long before it is in memory.
func TestW02_LargeValuesAreNotRead(t *testing.T) {
	endless := func(start string) io.Reader { return io.MultiReader(strings.NewReader(start), ones{}) }
	opts := Options{MaxObjectBytes: 1 << 20}
	n := allocated(func() {
		for _, start := range []string{`{"items":[{"x":"`, `{"items":[`, `{"x":`, `{"`} {
			_, _, err := readList(podDecoder(t, MediaJSON, opts), endless(start))
			require.ErrorIs(t, err, ErrTooLarge, start)
		}
		_, err := readWatch(podDecoder(t, MediaJSON, opts), endless(`{"type":"`))
		require.ErrorIs(t, err, ErrTooLarge)
		_, err = readWatch(podDecoder(t, MediaProtobuf, opts), endless("\x40\x00\x00\x00"))
		require.ErrorIs(t, err, ErrTooLarge)
	})
	require.Less(t, n, uint64(40<<20))
}

// ones is an endless reader of the digit 1.
type ones struct{}

func (ones) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '1'
	}
	return len(p), nil
}

func TestW02_DepthIsBounded(t *testing.T) {
	for _, n := range []int{defaultMaxDepth + 1, 1 << 20} {
		deep := strings.Repeat(`{"a":[`, n/2) + `1` + strings.Repeat(`]}`, n/2)
		body := `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":` + deep + `}`
		_, err := decoderOfType[*unstructured.Unstructured](t, MediaJSON, Options{Kind: widgetKind}).Object([]byte(body))
		require.ErrorIs(t, err, ErrTooDeep)
	}
}

// A type that contains itself would make the generated Unmarshal recurse until the stack overflows.
func TestW02_TypesThatContainThemselvesAreNotReadFromProtobuf(t *testing.T) {
	_, err := newTyped[*recursive](MediaProtobuf, Options{Kind: widgetKind})
	require.ErrorIs(t, err, ErrMedia)
	_, err = newTyped[*recursive](MediaJSON, Options{Kind: widgetKind})
	require.NoError(t, err)
}

type recursive struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Children map[string][]recursive
}

func (r *recursive) DeepCopyObject() apiruntime.Object { return r }
func (r *recursive) Unmarshal([]byte) error            { return nil }

// resource.ParseQuantity computes for hours with such numbers.
func TestW02_QuantitiesWithHugeExponents(t *testing.T) {
	for _, s := range []string{"1e-999999999", "9e-999", "123456789012345678901234567890e99999999", "1E+10000", ".5e-1234567", " 1e-999999999", "1e-999999999\u00a0", strings.Repeat("0", 500) + "1e-99999999"} {
		p := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"resources":{"limits":{"cpu":"` + s + `"}}}]}}`
		_, err := podDecoder(t, MediaJSON, Options{}).Object([]byte(p))
		require.ErrorIs(t, err, ErrQuantity, s)

		// The same in protobuf. The API's own types cannot encode it.
		text := append(binary.AppendUvarint([]byte{0x0a}, uint64(len(s))), s...)
		entry := nest(0x12, text, []byte("\x0a\x03cpu"))
		raw := nest(0x12, nest(0x12, nest(0x42, nest(0x0a, entry, nil), nil), nil), []byte("\x0a\x03\x0a\x01a"))
		_, err = podDecoder(t, MediaProtobuf, Options{}).Object(protobufBody(t, podKind, raw))
		require.ErrorIs(t, err, ErrQuantity, s)
	}
	for _, hidden := range []string{`1\u0065-999999999`, `\u0031e-999999999`, `1e\u002d999999999`} {
		p := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"overhead":{"cpu":"` + hidden + `"}}}`
		_, err := podDecoder(t, MediaJSON, Options{}).Object([]byte(p))
		require.ErrorIs(t, err, ErrQuantity, hidden)
	}
	unquoted := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"overhead":{"cpu":1e-999999999}}}`
	_, err := podDecoder(t, MediaJSON, Options{}).Object([]byte(unquoted))
	require.ErrorIs(t, err, ErrQuantity)
}

// The length of a quantity's text may be encoded in more bytes than necessary. That must not bypass
// the check of the exponent. (An exponent of five digits is refused, and would still be computed
// within the test's time.)
func TestW02_QuantitiesBehindOddLengths(t *testing.T) {
	const text = "1e-99999"
	quantity := nest(0x12, make([]byte, 125), []byte("\x0a\x88\x00"+text)) // 0x88 is also the number of bytes after it
	entry := nest(0x12, quantity, []byte("\x0a\x03cpu"))
	raw := nest(0x12, nest(0x12, nest(0x42, nest(0x0a, entry, nil), nil), nil), []byte("\x0a\x03\x0a\x01a"))
	for _, opts := range []Options{{Reference: true}, {}, {Pool: NewPool()}} {
		_, err := podDecoder(t, MediaProtobuf, opts).Object(protobufBody(t, podKind, raw))
		require.ErrorIs(t, err, ErrQuantity)
	}
}

// nest wraps a message into a field of another message, after the existing fields.
func nest(tag byte, msg, before []byte) []byte {
	return append(binary.AppendUvarint(append(before, tag), uint64(len(msg))), msg...)
}

// Texts that look like such a number are harmless anywhere else, and hashes in names and labels
// often do.
func TestHashesAreNotQuantities(t *testing.T) {
	p := pod("12e45678")
	p.Labels = map[string]string{"commit": "1e123456", "12e45678": "9E99999999"}
	p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "7e123456"}}
	p.Spec.Containers = []corev1.Container{{
		Name: "0e12345678",
		Args: []string{"1e99999999"},
		EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "1e12345"}}}},
		Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("1e3"), "memory": resource.MustParse("5Ei")}},
	}}
	for _, media := range allMedia {
		got, err := podDecoder(t, media, Options{}).Object(encodeAs(t, media, podKind, p))
		require.NoError(t, err, media)
		require.Equal(t, p.Labels, got.Labels)
	}
}

// Errors do not quote content, whichever package reports them.
func TestErrorsKeepSecrets(t *testing.T) {
	const secret = "hunter2"
	secretKind := corev1.SchemeGroupVersion.WithKind("Secret")
	d := decoderOfType[*corev1.Secret](t, MediaJSON, Options{Kind: secretKind})
	const start = `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"`
	for _, body := range []string{
		start + `},"data":{"password":"` + secret + `!!"}}`,
		start + `},"data":"` + secret + `"}`,
		start + `},"data":{"password":` + secret + `}}`,
		start + `,"creationTimestamp":"` + secret + `"}}`,
		start + `},"type":"` + secret + `"`,
		`{"apiVersion":"v1","kind":"Secret","data":{"` + secret + `":1}}`,
	} {
		_, err := d.Object([]byte(body))
		require.Error(t, err, body)
		for ; err != nil; err = errors.Unwrap(err) {
			require.NotContains(t, err.Error(), secret, body)
		}
	}
}

// Valid bodies are damaged: bytes changed, lost, doubled and shuffled. The result is a value or an
// error, in bounded memory.
func TestW02_DamagedBodies(t *testing.T) {
	const seed = 20261120
	random := rand.New(rand.NewPCG(seed, 0))
	for _, media := range allMedia {
		list := encodeAs(t, media, podListKind, podList("a", "b", "c"))
		stream := append(frameOf(t, media, "ADDED", podKind, pod("a")), frameOf(t, media, "BOOKMARK", podKind, pod("b"))...)
		object := encodeAs(t, media, podKind, pod("a"))
		d := podDecoder(t, media, fuzzOptions)
		for range 1000 {
			for name, read := range map[string]func(body []byte){
				"list":   func(body []byte) { readList(d, bytes.NewReader(body)) },
				"watch":  func(body []byte) { readWatch(d, bytes.NewReader(body)) },
				"object": func(body []byte) { d.Object(body) },
			} {
				body := damage(random, map[string][]byte{"list": list, "watch": stream, "object": object}[name])
				withinBudget(t, body, func() { read(body) })
				if t.Failed() {
					t.Fatalf("%s %s, seed %d: %q", media, name, seed, body)
				}
			}
		}
	}
}

func damage(random *rand.Rand, body []byte) []byte {
	body = bytes.Clone(body)
	for range 1 + random.IntN(4) {
		at := random.IntN(len(body))
		to := at + random.IntN(min(20, len(body)-at))
		switch random.IntN(4) {
		case 0:
			body[at] = byte(random.Uint32())
		case 1:
			body = append(body[:at], body[to:]...)
		case 2:
			body = slices.Insert(body, at, bytes.Clone(body[at:to])...)
		case 3:
			body[at], body[to] = body[to], body[at]
		}
		if len(body) == 0 {
			break
		}
	}
	return body
}

// budget is the total cost of decoding: memory for buffers, and for each byte six times the allowed
// density. A table may make the objects and give up, and the reference makes them again, and grows
// its lists by a quarter at a time.
var budget = hostile.Budget{Memory: 1 << 20, MemoryPerByte: 6 * MaxMemoryPerByte}

func withinBudget(t *testing.T, body []byte, read func()) {
	t.Helper()
	budget.Within(t, len(body), read)
}

// fuzzOptions are the default limits, which most decoders use.
var fuzzOptions = Options{}

package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace-dev/millrace/wire/internal/guard"
)

// podText returns a Pod in JSON with the given fields in its spec.
func podText(spec string) string {
	return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{` + spec + `}}`
}

// overhead returns a Pod in protobuf whose overhead has one entry.
func overhead(t *testing.T, entry []byte) []byte {
	spec := append(binary.AppendUvarint([]byte{0x82, 0x02}, uint64(len(entry))), entry...)
	return protobufBody(t, podKind, nest(0x12, spec, []byte("\x0a\x03\x0a\x01a")))
}

// A quantity is checked wherever the reference would parse one, even if another field hides or
// replaces it. (An exponent of five digits is refused, and would still be computed within the
// test's time.)
func TestW02_HiddenQuantities(t *testing.T) {
	const huge = "1e-99999"
	text := nest(0x0a, []byte(huge), nil)
	for name, body := range map[string]string{
		"a key twice":           podText(`"overhead":{"cpu":"` + huge + `","cpu":"1"}`),
		"a field twice":         podText(`"overhead":{"cpu":"` + huge + `"}},"spec":{`),
		"a name with an escape": podText(`"\u006fverhead":{"cpu":"` + huge + `"}`),
		"a key that is no text": podText("\"overhead\":{\"\xff\":\"" + huge + "\"}"),
		"many digits":           podText(`"overhead":{"cpu":"` + strings.Repeat("1", guard.MaxNumerals+1) + `"}`),
		"many decimals":         podText(`"overhead":{"cpu":0.` + strings.Repeat("0", guard.MaxNumerals) + `1}`),
	} {
		for _, opts := range []Options{{Reference: true}, {}, {Pool: NewPool()}} {
			_, err := podDecoder(t, MediaJSON, opts).Object([]byte(body))
			require.ErrorIs(t, err, ErrQuantity, "%s, %+v", name, opts)
		}
	}
	for name, entry := range map[string][]byte{
		"a value of another wire type": nest(0x10, text, []byte("\x0a\x03cpu")),
		"a value twice":                nest(0x12, []byte("\x0a\x011"), nest(0x12, text, []byte("\x0a\x03cpu"))),
		"a key of another wire type":   nest(0x12, text, []byte("\x08\x03cpu")),
		"a number that wraps around":   append([]byte("\x0a\x03cpu\x92\x80\x80\x80\x80\x01\x0a"), text...),
		"many digits":                  nest(0x12, nest(0x0a, bytes.Repeat([]byte("1"), guard.MaxNumerals+1), nil), []byte("\x0a\x03cpu")),
	} {
		for _, opts := range []Options{{Reference: true}, {}, {Pool: NewPool()}} {
			_, err := podDecoder(t, MediaProtobuf, opts).Object(overhead(t, entry))
			require.ErrorIs(t, err, ErrQuantity, "%s, %+v", name, opts)
		}
	}
	for _, opts := range []Options{{Reference: true}, {}} {
		_, err := decoderOfType[*embeds](t, MediaJSON, Options{Kind: widgetKind, Reference: opts.Reference}).Object([]byte(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"q":"` + huge + `","x":1}`))
		require.ErrorIs(t, err, ErrQuantity)
	}
	longest := strings.Repeat("9", guard.MaxNumerals)
	got, err := podDecoder(t, MediaJSON, Options{}).Object([]byte(podText(`"overhead":{"cpu":"` + longest + `","memory":"1e0000000003"}`)))
	require.NoError(t, err)
	require.True(t, resource.MustParse("1000").Equal(got.Spec.Overhead["memory"]))
}

// embeds has a quantity in an unexported embedded struct.
type embeds struct {
	metav1.TypeMeta
	metav1.ObjectMeta `json:"metadata"`
	hidden
	Twice struct {
		X int `json:"x"`
	} `json:",inline"`
}

type hidden struct {
	Q resource.Quantity `json:"q"`
}

func (e *embeds) DeepCopyObject() apiruntime.Object { return e }

// Generated code lets the value of a map's entry extend beyond the entry, so each of many entries
// could copy all bytes after it.
func TestW02_EntriesDoNotReachBeyondTheirEnd(t *testing.T) {
	const entries = 20_000
	var meta []byte
	for i := entries; i > 0; i-- {
		// The value claims all the following bytes.
		entry := binary.AppendUvarint(fmt.Appendf(nil, "\x0a\x05%05d\x12", i), uint64(len(meta)))
		meta = append(nest(0x5a, entry, nil), meta...)
		if len(meta) > 100<<10 {
			break
		}
	}
	meta = append([]byte("\x0a\x01a"), meta...)
	for _, opts := range []Options{{Reference: true}, {}, {Pool: NewPool()}} {
		body := protobufBody(t, podKind, nest(0x0a, meta, nil))
		n := allocated(func() {
			_, err := podDecoder(t, MediaProtobuf, opts).Object(body)
			require.ErrorIs(t, err, ErrSyntax)
		})
		require.Less(t, n, uint64(1<<20), "%+v", opts)
	}
}

// The number of elements of a list is trusted only after they were checked.
func TestW02_ElementsAreCountedOnceChecked(t *testing.T) {
	const n = 1 << 18
	for name, c := range map[string]struct {
		spec string
		want error
	}{
		"commas":     {`"containers":[` + strings.Repeat(",", n) + `]`, ErrSyntax},
		"numbers":    {`"containers":[` + strings.Repeat("0,", n) + `0]`, ErrTooDense},
		"texts":      {`"containers":[` + strings.Repeat(`"",`, n) + `""]`, ErrTooDense},
		"map commas": {`"nodeSelector":{` + strings.Repeat(",", n) + `}`, ErrSyntax},
		"names":      {`"nodeSelector":{` + strings.Repeat(`"",`, n) + `}`, ErrSyntax},
	} {
		body := []byte(podText(c.spec))
		for _, opts := range []Options{{Reference: true}, {}, {Pool: NewPool()}} {
			var err error
			got := allocated(func() { _, err = podDecoder(t, MediaJSON, opts).Object(body) })
			require.ErrorIs(t, err, c.want, name)
			require.Less(t, got, 10*uint64(len(body)), "%s, %+v", name, opts)
		}
	}
}

// Within the default limits nothing takes long: neither very many quantities of the largest allowed
// length, nor parts nested to the largest allowed depth.
func TestW02_DefaultLimitsBoundTime(t *testing.T) {
	size := DefaultMaxObjectBytes - 1000
	if raceDetector {
		size /= 16
	}
	quantities := func(q string) string {
		var b strings.Builder
		for i := 0; b.Len() < size-2*len(q)-100; i++ {
			fmt.Fprintf(&b, `"%d":"%s",`, i, q)
		}
		return podText(`"overhead":{` + b.String() + `"":"1"}`)
	}
	depth := defaultMaxDepth/2 - 2
	deep := widgetText("a", strings.Repeat(`{"child":[`, depth)+`{"text":"`+strings.Repeat("x", size-20*depth)+`"}`+strings.Repeat(`]}`, depth))
	pods, trees := podDecoder(t, MediaJSON, Options{Pool: NewPool()}), decoderOfType[*tree](t, MediaJSON, Options{Kind: widgetKind, Pool: NewPool()})
	for name, read := range map[string]func() error{
		"mantissas": func() error {
			_, _, err := readList(pods, strings.NewReader(podListOf(quantities(strings.Repeat("9", guard.MaxNumerals)))))
			return err
		},
		"fractions": func() error {
			_, _, err := readList(pods, strings.NewReader(podListOf(quantities("."+strings.Repeat("9", guard.MaxNumerals-1)))))
			return err
		},
		"parts": func() error {
			_, err := readWatch(trees, strings.NewReader(added(deep)+added(strings.Replace(deep, `"a"`, `"b"`, 1))+added(deep)))
			return err
		},
	} {
		start := time.Now()
		require.NoError(t, read(), name)
		require.Less(t, time.Since(start), 30*time.Second, name)
	}
}

func podListOf(pod string) string {
	return `{"apiVersion":"v1","kind":"PodList","items":[` + pod + `]}`
}

func added(object string) string { return `{"type":"ADDED","object":` + object + "}\n" }

func widgetText(name, spec string) string {
	return `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"` + name + `"},"spec":` + spec + `}`
}

// tree is an object whose type contains itself.
type tree struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              branch `json:"spec"`
}

type branch struct {
	Child []branch `json:"child"`
	Text  string   `json:"text"`
}

func (t *tree) DeepCopyObject() apiruntime.Object { return t }

// Valid protobuf that no API uses is skipped, as by the reference.
func TestW01_UnknownGroupsAreSkipped(t *testing.T) {
	raw := append(nest(0x0a, []byte("\x0a\x01a"), nil), "\x93\x03\x08\x01\x94\x03"...) // 50: {1: 1}
	require.NoError(t, new(corev1.Pod).Unmarshal(raw))
	for _, opts := range []Options{{Reference: true}, {}, {Pool: NewPool()}} {
		got, err := podDecoder(t, MediaProtobuf, opts).Object(protobufBody(t, podKind, raw))
		require.NoError(t, err, "%+v", opts)
		require.Equal(t, "a", got.Name)
	}
}

// The size limit applies to the object of an ERROR event.
func TestAnErrorEventIsHeldToTheLimit(t *testing.T) {
	for _, media := range []string{MediaJSON, MediaCBOR} {
		status := &metav1.Status{Status: "Failure", Message: strings.Repeat("m", 900), Reason: metav1.StatusReasonExpired, Code: 410}
		body := frameOf(t, media, "ERROR", statusKind, status)
		_, err := readWatch(podDecoder(t, media, Options{MaxObjectBytes: 800}), bytes.NewReader(body))
		require.ErrorIs(t, err, ErrTooLarge, media)
	}
}

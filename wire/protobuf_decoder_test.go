package wire

import (
	"bytes"
	"reflect"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/wire/internal/protobuf"
)

// If a field appears twice the last one counts, even if the first one is longer, shorter or empty.
func TestW01_StringsThatComeTwice(t *testing.T) {
	for _, names := range [][]string{{"ab", "xyz"}, {"abc", "xy"}, {"", "x"}, {"x", ""}, {"a", "b", "c"}} {
		var meta []byte
		for _, name := range names {
			meta = nest(0x0a, []byte(name), meta)
		}
		got, err := podDecoder(t, MediaProtobuf, Options{}).Object(protobufBody(t, podKind, nest(0x0a, meta, nil)))
		require.NoError(t, err)
		require.Equal(t, names[len(names)-1], got.Name, "%q", names)
	}
}

func TestW01_BytesThatComeTwice(t *testing.T) {
	kind := certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest")
	for _, requests := range [][]string{{"ab", "xyz"}, {"abc", "xy"}, {"", "x"}, {"x", ""}} {
		var spec []byte
		for _, request := range requests {
			spec = nest(0x0a, []byte(request), spec)
		}
		got, err := decoderOfType[*certificatesv1.CertificateSigningRequest](t, MediaProtobuf, Options{Kind: kind}).Object(protobufBody(t, kind, nest(0x12, spec, nil)))
		require.NoError(t, err)
		require.Equal(t, []byte(requests[1]), got.Spec.Request, "%q", requests)
	}
}

// A list type that decodes itself is empty but not nil if its field is present.
func TestW01_EmptyListsThatReadThemselves(t *testing.T) {
	kind := authenticationv1.SchemeGroupVersion.WithKind("TokenReview")
	entry := nest(0x12, nil, []byte("\x0a\x01k"))
	raw := nest(0x1a, nest(0x12, nest(0x22, entry, nil), nil), nil)
	got, err := decoderOfType[*authenticationv1.TokenReview](t, MediaProtobuf, Options{Kind: kind}).Object(protobufBody(t, kind, raw))
	require.NoError(t, err)
	require.Equal(t, map[string]authenticationv1.ExtraValue{"k": {}}, got.Status.User.Extra)
}

// Not even an empty string keeps the body alive.
func TestW03_EmptyStringsKeepNoBody(t *testing.T) {
	body := protobufBody(t, podKind, nest(0x0a, []byte("\x0a\x01a\x12\x00\x1a\x01b"), nil))
	got, err := podDecoder(t, MediaProtobuf, Options{}).Object(body)
	require.NoError(t, err)
	requireFree(t, got, body, "Pod")
}

// An object with very many strings is decoded by its table, and a list of small elements takes no
// more memory than with the reference.
func TestW02_ManySmallParts(t *testing.T) {
	finalizers := bytes.Repeat([]byte("\x72\x01f"), 1<<18)
	run, table := new(protobuf.Decoder), podTable(t)
	require.NoError(t, run.Decode(table, unsafe.Pointer(new(corev1.Pod)), nest(0x0a, finalizers, nil)))

	container := nest(0x12, []byte("\x0a\x0cabcdefghijkl"), nil)
	containers := protobufBody(t, podKind, nest(0x12, bytes.Repeat(container, 1<<16), nil))
	took := make(map[bool]uint64)
	for _, reference := range []bool{true, false} {
		d := podDecoder(t, MediaProtobuf, Options{Reference: reference})
		took[reference] = allocated(func() {
			p, err := d.Object(containers)
			require.NoError(t, err)
			require.Len(t, p.Spec.Containers, 1<<16)
		})
	}
	require.LessOrEqual(t, took[false], took[true])
}

func podTable(t testing.TB) *protobuf.Table {
	t.Helper()
	table, err := protobuf.TableOf(reflect.TypeFor[corev1.Pod](), nil)
	require.NoError(t, err)
	return table
}

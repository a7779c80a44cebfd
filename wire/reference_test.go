package wire

import (
	"bytes"
	"fmt"
	"io"
	"reflect"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/scheme"
	"github.com/millrace-dev/millrace/wire/internal/frame"
	"github.com/millrace-dev/millrace/wire/internal/protobuf"
	"github.com/millrace-dev/millrace/wire/internal/share"
)

// contest has every decoder for the objects of one kind and media type: the reference, and those
// that must agree with it.
type contest[T object.Object] struct {
	reference typedDecoder[T]
	compiled  []contestant[T]
}

type contestant[T object.Object] struct {
	typedDecoder[T]
	name string
	same func(t testing.TB, want, got any, about string)
}

func newContest[T object.Object](t testing.TB, media string, opts Options, pool *Pool) *contest[T] {
	t.Helper()
	with := func(change func(*Options)) typedDecoder[T] {
		opts := opts
		change(&opts)
		return decoderOfType[T](t, media, opts)
	}
	return &contest[T]{
		reference: with(func(o *Options) { o.Reference = true }),
		compiled: []contestant[T]{
			{with(func(*Options) {}), "compiled", requireSame},
			{with(func(o *Options) { o.Pool = pool }), "with a pool", requireSame},
			{newUnpacking[T](t, media, opts, pool), "packed", requireAlike},
		},
	}
}

// objects requires that all decoders agree on a body with one object: the same value, which does
// not refer to the body, or the same error.
func (c *contest[T]) objects(t testing.TB, body []byte, about string, args ...any) {
	t.Helper()
	want, wantErr := c.reference.Object(bytes.Clone(body))
	for _, d := range c.compiled {
		about := fmt.Sprintf(about+": ", args...) + d.name
		memory := bytes.Clone(body)
		got, err := d.Object(memory)
		requireSame(t, wantErr, err, about)
		if err == nil {
			requireFree(t, got, memory, about)
			d.same(t, want, got, about)
		}
	}
}

// lists is objects for the body of a list. A pool first sees a part, then remembers it, then finds
// it, so an object should appear three times.
func (c *contest[T]) lists(t testing.TB, body []byte, about string, args ...any) {
	t.Helper()
	want, wantMeta, wantErr := readList(c.reference, bytes.NewReader(body))
	for _, d := range c.compiled {
		about := fmt.Sprintf(about+": ", args...) + d.name
		r := &recorder{r: bytes.NewReader(body)}
		got, meta, err := readList(d.typedDecoder, r)
		requireSame(t, wantErr, err, about)
		r.requireFree(t, got, about)
		requireSame(t, wantMeta, meta, about)
		d.same(t, want, got, about)
	}
}

// watches is objects for the body of a watch.
func (c *contest[T]) watches(t testing.TB, body []byte, about string, args ...any) {
	t.Helper()
	want, wantErr := readWatch(c.reference, bytes.NewReader(body))
	for _, d := range c.compiled {
		about := fmt.Sprintf(about+": ", args...) + d.name
		r := &recorder{r: bytes.NewReader(body)}
		got, err := readWatch(d.typedDecoder, r)
		requireSame(t, wantErr, err, about)
		r.requireFree(t, got, about)
		require.Len(t, got, len(want), about)
		for i := range want {
			d.same(t, want[i].Object, got[i].Object, about)
			got[i].Received, got[i].Decoded, got[i].Object = want[i].Received, want[i].Decoded, want[i].Object
		}
		requireSame(t, want, got, about)
	}
}

// requireAlike is requireSame for packed objects. Objects in a form that no server writes may be
// restored in an equivalent form.
func requireAlike(t testing.TB, want, got any, about string) {
	t.Helper()
	if !equality.Semantic.DeepEqual(want, got) {
		requireSame(t, want, got, about)
	}
}

// requireSame requires that two values are deeply equal, including nil pointers, or that two errors
// have the same text and place.
func requireSame(t testing.TB, want, got any, about string) {
	t.Helper()
	wantErr, _ := want.(error)
	gotErr, _ := got.(error)
	if wantErr != nil && gotErr != nil {
		require.Equal(t, wantErr.Error(), gotErr.Error(), about)
	}
	if !reflect.DeepEqual(want, got) {
		t.Fatalf("%s: %s", about, difference(reflect.ValueOf(want), reflect.ValueOf(got), ""))
	}
}

// difference returns the first place where two values differ.
func difference(want, got reflect.Value, path string) string {
	differ := fmt.Sprintf("%s is %v, want %v", path, got, want)
	if want.IsValid() != got.IsValid() || !want.IsValid() {
		return differ
	}
	if want.Type() != got.Type() {
		return fmt.Sprintf("%s is a %v, want a %v", path, got.Type(), want.Type())
	}
	switch want.Kind() {
	case reflect.Pointer, reflect.Interface:
		if want.IsNil() || got.IsNil() {
			return differ
		}
		return difference(want.Elem(), got.Elem(), path)
	case reflect.Struct:
		for i := range want.NumField() {
			if d := difference(want.Field(i), got.Field(i), path+"."+want.Type().Field(i).Name); d != "" {
				return d
			}
		}
		return ""
	case reflect.Slice, reflect.Map:
		if want.IsNil() != got.IsNil() || want.Len() != got.Len() {
			return fmt.Sprintf("%s (nil: %v, want %v)", differ, got.IsNil(), want.IsNil())
		}
		if want.Kind() == reflect.Map {
			for _, key := range want.MapKeys() {
				if d := difference(want.MapIndex(key), got.MapIndex(key), fmt.Sprintf("%s[%q]", path, key)); d != "" {
					return d
				}
			}
			return ""
		}
		for i := range want.Len() {
			if d := difference(want.Index(i), got.Index(i), fmt.Sprintf("%s[%d]", path, i)); d != "" {
				return d
			}
		}
		return ""
	}
	if want.Equal(got) {
		return ""
	}
	return differ
}

// requireFree requires that a value does not point into memory, not even with an empty string. Then
// it overwrites the memory.
func requireFree(t testing.TB, value any, memory []byte, about string) {
	t.Helper()
	w := walker{inside: memory, seen: make(map[unsafe.Pointer]bool)}
	w.walk(reflect.ValueOf(value), "")
	require.Empty(t, w.found, "%s: points into the body", about)
	copy(memory, bytes.Repeat([]byte{0xff}, len(memory)))
}

// walker looks for pointers into some memory.
type walker struct {
	inside []byte
	seen   map[unsafe.Pointer]bool
	found  []string
}

func (w *walker) walk(v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() && !w.seen[v.UnsafePointer()] {
			w.seen[v.UnsafePointer()] = true
			w.walk(v.Elem(), path)
		}
	case reflect.Interface:
		w.walk(v.Elem(), path)
	case reflect.Struct:
		for i := range v.NumField() {
			w.walk(v.Field(i), path+"."+v.Type().Field(i).Name)
		}
	case reflect.String:
		w.look(unsafe.Pointer(unsafe.StringData(v.String())), path)
	case reflect.Slice:
		w.look(v.UnsafePointer(), path)
		if v.Type().Elem().Kind() != reflect.Uint8 {
			for i := range v.Len() {
				w.walk(v.Index(i), path+"[]")
			}
		}
	case reflect.Map:
		for entries := v.MapRange(); entries.Next(); {
			w.walk(entries.Key(), path+"{key}")
			w.walk(entries.Value(), path+"{}")
		}
	}
}

func (w *walker) look(at unsafe.Pointer, path string) {
	start := uintptr(unsafe.Pointer(unsafe.SliceData(w.inside)))
	if uintptr(at) >= start && uintptr(at) < start+uintptr(len(w.inside)) {
		w.found = append(w.found, path)
	}
}

// recorder forwards a body and records all memory that received it.
type recorder struct {
	r     io.Reader
	given [][]byte
}

func (r *recorder) Read(p []byte) (int, error) {
	r.given = append(r.given, p)
	return r.r.Read(p)
}

func (r *recorder) requireFree(t testing.TB, value any, about string) {
	t.Helper()
	for _, p := range r.given {
		requireFree(t, value, p, about)
	}
}

// Every type of the scheme that has a table, including lists and options, is decoded as by its own
// Unmarshal, and bytes that apimachinery writes never need the reference.
func TestW01_EveryTypeByItsTable(t *testing.T) {
	t.Parallel()
	all := scheme.New()
	f := newFiller(all)
	count := 0
	for i, a := range apiTypes(all) {
		if !protobuf.HasTable(a.typ) || protobuf.ContainsItself(a.typ) {
			continue
		}
		count++
		if !among(count) {
			continue
		}
		table, err := protobuf.TableOf(a.typ, nil)
		require.NoError(t, err)
		plain, sharing := new(protobuf.Decoder), &protobuf.Decoder{Sharer: share.Sharer{Pool: share.NewPool()}}
		for n, how := range []fullness{full, half, half, sparse, sparse} {
			seed := int64(1000*i + n)
			raw, err := f.object(a.typ, how, seed).(interface{ Marshal() ([]byte, error) }).Marshal()
			require.NoError(t, err)
			want := reflect.New(a.typ)
			require.NoError(t, want.Interface().(protobuf.Unmarshaler).Unmarshal(raw))
			for try, run := range []*protobuf.Decoder{plain, sharing, sharing, sharing} {
				about := fmt.Sprintf("%s, seed %d, try %d", a.kind, seed, try)
				memory := bytes.Clone(raw)
				got := reflect.New(a.typ)
				require.NoError(t, run.Decode(table, got.UnsafePointer(), memory), about)
				requireFree(t, got.Interface(), memory, about)
				requireSame(t, want.Interface(), got.Interface(), about)
			}
		}
	}
	t.Logf("%d types", count)
	require.GreaterOrEqual(t, count, 317)
}

// objectKinds calls each with every kind of the scheme whose objects can be
// decoded, and returns how many there are.
func objectKinds(all *runtime.Scheme, each func(i int, a apiType)) (count int) {
	for i, a := range apiTypes(all) {
		if a.isObject() {
			if among(count) {
				each(i, a)
			}
			count++
		}
	}
	return count
}

// raceShare is how many cases are reduced to one under the race detector, if they differ only in
// their data.
const raceShare = 8

// SkipUnderRace skips a test that the race detector slows tenfold and that cannot race, because it
// uses one goroutine. The package is also tested without the race detector.
func SkipUnderRace(t *testing.T) {
	if raceDetector {
		t.Skip("only one goroutine runs: without the race detector only")
	}
}

// among reports whether case n of many runs.
func among(n int) bool { return !raceDetector || n%raceShare == 0 }

// portion returns how many of n cases run.
func portion(n int) int {
	if raceDetector {
		return n / raceShare
	}
	return n
}

// mediaOf returns the media types of a kind's objects.
func mediaOf(all *runtime.Scheme, kind object.GVK) []string {
	if SupportsProtobuf(Options{Scheme: all, Kind: kind}) {
		return bothMedia
	}
	return []string{MediaJSON}
}

// Every kind of the scheme, alone, in lists and in watches, is decoded as by the reference.
func TestW01_EveryKindInEveryBody(t *testing.T) {
	t.Parallel()
	all := scheme.New()
	f := newFiller(all)
	pool := NewPool()
	decoded := 0
	count := objectKinds(all, func(i int, a apiType) {
		for _, media := range mediaOf(all, a.kind) {
			c := newContest[object.Object](t, media, Options{Scheme: all, Kind: a.kind}, pool)
			var bodies [][]byte
			for n, how := range []fullness{full, half, sparse} {
				seed := int64(2000*i + n)
				body := encodeAs(t, media, a.kind, f.object(a.typ, how, seed))
				c.objects(t, body, "%s in %s, seed %d", a.kind, media, seed)
				if how != full {
					bodies = append(bodies, body, body, body)
				}
			}
			c.lists(t, listOf(t, media, a.kind, bodies), "list of %s in %s, seeds from %d", a.kind, media, 2000*i)
			c.watches(t, watchOf(t, media, bodies), "watch of %s in %s, seeds from %d", a.kind, media, 2000*i)
			decoded++
		}
	})
	t.Logf("%d kinds, %d with their media types", count, decoded)
	require.GreaterOrEqual(t, count, 158)
	require.GreaterOrEqual(t, decoded, portion(316))
}

// listOf returns a list of objects that encodeAs has encoded.
func listOf(t testing.TB, media string, kind object.GVK, objects [][]byte) []byte {
	t.Helper()
	kind.Kind += "List"
	if media == MediaJSON {
		list := fmt.Sprintf(`{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"5"},"items":[`, kind.Kind, kind.GroupVersion())
		return append(append([]byte(list), bytes.Join(objects, []byte(","))...), "]}\n"...)
	}
	if media == MediaCBOR {
		list := fmt.Appendf(nil, "\xd9\xd9\xf7\xbf\x64kind%s\x65items\x9f", cborTextOf(kind.Kind))
		list = append(append(list, bytes.Join(objects, nil)...), "\xff\x68metadata\xa1\x6fresourceVersion\x615\x6aapiVersion"...)
		return append(append(list, cborTextOf(kind.GroupVersion().String())...), frame.CBORBreak)
	}
	var messages [][]byte
	for _, body := range objects {
		e, err := protobuf.Open(MediaProtobuf, body)
		require.NoError(t, err)
		messages = append(messages, e.Raw)
	}
	return messagesList(t, kind, messages...)
}

// cborTextOf returns a text in CBOR.
func cborTextOf(s string) string { return string([]byte{frame.CBORText<<5 | 24, byte(len(s))}) + s }

// messagesList returns a protobuf list of this kind with the messages as items.
func messagesList(t testing.TB, list object.GVK, messages ...[]byte) []byte {
	t.Helper()
	raw := nest(0x0a, []byte("\x12\x015"), nil)
	for _, msg := range messages {
		raw = nest(0x12, msg, raw)
	}
	return protobufBody(t, list, raw)
}

// protobufBody puts the message raw into its envelope.
func protobufBody(t testing.TB, kind object.GVK, raw []byte) []byte {
	t.Helper()
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind}, Raw: raw}
	body, err := unknown.Marshal()
	require.NoError(t, err)
	return append([]byte(protobuf.Magic), body...)
}

// watchOf returns the frames of a watch with objects that encodeAs has encoded.
func watchOf(t testing.TB, media string, objects [][]byte) (body []byte) {
	t.Helper()
	for i, obj := range objects {
		body = append(body, rawFrame(t, media, []string{"ADDED", "MODIFIED", "DELETED", "BOOKMARK"}[i%4], obj)...)
	}
	return body
}

// The metadata of every kind is decoded as by the reference, whatever the rest of the object, and
// so is JSON of every kind without Go types.
func TestW01_EveryKindAsMetadataAndAsMaps(t *testing.T) {
	t.Parallel()
	all := scheme.New()
	f := newFiller(all)
	pool := NewPool()
	count := objectKinds(all, func(i int, a apiType) {
		opts := Options{Kind: a.kind}
		seed := int64(3000 * i)
		obj := f.object(a.typ, half, seed)
		for _, media := range mediaOf(all, a.kind) {
			body := encodeAs(t, media, a.kind, obj)
			c := newContest[*metav1.PartialObjectMetadata](t, media, opts, pool)
			c.objects(t, body, "metadata of %s in %s, seed %d", a.kind, media, seed)
			c.lists(t, listOf(t, media, a.kind, [][]byte{body, body, body}), "metadata of a list of %s in %s, seed %d", a.kind, media, seed)
		}
		body := encodeAs(t, MediaJSON, a.kind, obj)
		c := newContest[*unstructured.Unstructured](t, MediaJSON, opts, pool)
		c.objects(t, body, "map of %s, seed %d", a.kind, seed)
		c.lists(t, listOf(t, MediaJSON, a.kind, [][]byte{body, body, body}), "maps of a list of %s, seed %d", a.kind, seed)
		c.watches(t, watchOf(t, MediaJSON, [][]byte{body, body, body}), "maps of a watch of %s, seed %d", a.kind, seed)
	})
	t.Logf("%d kinds", count)
	require.GreaterOrEqual(t, count, 158)
}

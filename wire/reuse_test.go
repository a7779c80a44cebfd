package wire

import (
	"bytes"
	stdjson "encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/internal/objects"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/scheme"
	"github.com/millrace-dev/millrace/test/hostile"
	"github.com/millrace-dev/millrace/wire/internal/protobuf"
	"github.com/millrace-dev/millrace/wire/internal/share"
)

// reuseTest decodes messages reusing others.
type reuseTest struct {
	typ   reflect.Type
	table *protobuf.Table
	runs  []*protobuf.Decoder // with and without a pool
}

func newReuseTest(t testing.TB, typ reflect.Type) *reuseTest {
	t.Helper()
	table, err := protobuf.TableOf(typ, nil)
	require.NoError(t, err)
	return &reuseTest{typ, table, []*protobuf.Decoder{
		{Versions: true},
		{Versions: true, Sharer: share.Sharer{Pool: NewPool().sharePool()}},
	}}
}

// reference returns the reference's result for raw, or nil.
func (b *reuseTest) reference(raw []byte) reflect.Value {
	want := reflect.New(b.typ)
	if want.Interface().(protobuf.Unmarshaler).Unmarshal(bytes.Clone(raw)) != nil {
		return reflect.Value{}
	}
	return want
}

// require decodes raw with each decoder, reusing an object of was. It requires that the result
// equals the reference's or is left to the reference, and that the other object does not change. It
// returns how many decoders succeeded.
func (b *reuseTest) require(t testing.TB, raw, was []byte, about string) (decoded int) {
	t.Helper()
	want, other := b.reference(raw), b.reference(was)
	if !other.IsValid() {
		return 0
	}
	for _, run := range b.runs {
		got, body, otherBody := reflect.New(b.typ), bytes.Clone(raw), bytes.Clone(was)
		if run.DecodeReusing(b.table, got.UnsafePointer(), body, other.UnsafePointer(), otherBody) != nil {
			continue
		}
		decoded++
		require.True(t, want.IsValid(), "%s: decoded what the reference refuses", about)
		requireFree(t, got.Interface(), body, about)
		requireFree(t, got.Interface(), otherBody, about)
		requireSame(t, want.Interface(), got.Interface(), about)
		theirs := quantitiesIn(other)
		for _, q := range quantitiesIn(got) {
			require.False(t, slices.Contains(theirs, q), "%s: a quantity of both", about)
		}
	}
	requireSame(t, b.reference(was).Interface(), other.Interface(), about+": the other object")
	return decoded
}

// For any form of an object and the reused one, and any common parts, the result equals the
// reference's.
func TestW01_DecodedReusingAnother(t *testing.T) {
	t.Parallel()
	const seed = 20261125
	random := rand.New(rand.NewPCG(seed, 3))
	all := scheme.New()
	f := newFiller(all)
	decoded, asked := 0, 0
	objectKinds(all, func(i int, a apiType) {
		if !SupportsProtobuf(Options{Scheme: all, Kind: a.kind}) || !protobuf.HasTable(a.typ) {
			return
		}
		b := newReuseTest(t, a.typ)
		marshal := func(seed int, how fullness) []byte {
			raw, err := f.object(a.typ, how, int64(seed)).(interface{ Marshal() ([]byte, error) }).Marshal()
			require.NoError(t, err)
			return raw
		}
		one, other := marshal(6000*i, full), marshal(6000*i+1, half)
		usual := [][]byte{one, other}
		for range 2 { // some parts of one, some of the other
			usual = append(usual, crossed(random, takeApart(t, b.table, one), takeApart(t, b.table, other)).encode())
		}
		for _, raw := range usual {
			for _, was := range usual {
				asked += len(b.runs)
				decoded += b.require(t, raw, was, a.kind.String())
			}
		}
		for _, name := range slices.Sorted(maps.Keys(otherForms)) {
			whole := takeApart(t, b.table, one)
			messages := whole.all()
			otherForms[name](random, messages[random.IntN(len(messages))])
			odd := whole.encode()
			b.require(t, odd, one, name+" of "+a.kind.String())
			b.require(t, one, odd, a.kind.String()+" beside "+name)
			b.require(t, odd, odd, name+" of "+a.kind.String()+" beside itself")
		}
		for range 4 {
			damaged := damage(random, one)
			b.require(t, damaged, one, "damaged "+a.kind.String())
			b.require(t, one, damaged, a.kind.String()+" beside a damaged one")
		}
	})
	t.Logf("%d of %d in the usual form were decoded", decoded, asked)
	require.Equal(t, asked, decoded, "the usual form never needs the reference")
	require.Greater(t, decoded, portion(1000))
}

// crossed returns m with some of its parts replaced by those of the other message.
func crossed(random *rand.Rand, m, other *message) *message {
	at := make(map[uint64][]*messageField)
	for _, f := range other.fields {
		at[f.tag] = append(at[f.tag], f)
	}
	for i, f := range m.fields {
		others := at[f.tag]
		if len(others) == 0 {
			continue
		}
		with := others[random.IntN(len(others))]
		switch random.IntN(4) {
		case 0:
			m.fields[i] = with.copyOf()
		case 1:
			if f.inner != nil && with.inner != nil {
				crossed(random, f.inner, with.inner)
			}
		}
	}
	return m
}

// Two states opened together share their unchanged parts.
func TestW03_BothStatesHaveMuchInCommon(t *testing.T) {
	p := NewPacker(NewPool())
	pack := func(pod *corev1.Pod) *Packed {
		packed, err := p.Pack(pod)
		require.NoError(t, err)
		return packed
	}
	was := replica("web-0")
	now := was.DeepCopy()
	now.ResourceVersion, now.Status.PodIP = "2", "10.1.2.3"
	o, old := pack(now), pack(was)
	opened, openedOld, ok := o.OpenBoth(old)
	require.True(t, ok)
	require.Equal(t, now, opened)
	require.Equal(t, was, openedOld)
	require.Same(t, &opened.(*corev1.Pod).Spec.Containers[0], &openedOld.(*corev1.Pod).Spec.Containers[0])
	require.EqualValues(t, 2, p.Opened())

	_, _, ok = o.OpenBoth(old)
	require.False(t, ok, "they are in use")
	again, err := o.Open()
	require.NoError(t, err)
	require.Same(t, opened, again)
	runtime.KeepAlive(openedOld)
}

// States are not shared if they must not be: without a pool, and if mutations are detected.
func TestW03_StatesThatShareNothingAreOpenedAlone(t *testing.T) {
	watched := NewPacker(NewPool())
	watched.OnOpen(func(*Packed, object.Object) {})
	for name, p := range map[string]*Packer{"no pool": NewPacker(nil), "mutations": watched} {
		o, err := p.Pack(replica("web-0"))
		require.NoError(t, err)
		_, _, ok := o.OpenBoth(o)
		require.False(t, ok, name)
	}
}

// A small state that stays in use after its update does not keep a large one alive.
func TestW03_AnUpdateKeepsNoLargeState(t *testing.T) {
	const updates, large = 20, 1 << 20
	p := NewPacker(NewPool())
	var states []*Packed
	for n := range updates {
		was := replica(fmt.Sprint("web-", n))
		now := was.DeepCopy()
		now.ResourceVersion, now.Status.Message = "2", strings.Repeat(fmt.Sprintf("%4d", n), large/4)
		for _, o := range []*corev1.Pod{now, was} {
			packed, err := p.Pack(o)
			require.NoError(t, err)
			states = append(states, packed)
		}
	}
	before := heapInUse()
	for n := 0; n < len(states); n += 2 {
		if _, _, ok := states[n].OpenBoth(states[n+1]); ok {
			continue
		}
		for _, o := range states[n : n+2] {
			_, err := o.Open()
			require.NoError(t, err)
		}
	}
	held := int64(heapInUse()) - int64(before)
	require.Less(t, held, int64(large), "bytes that %d updates left", updates)
	runtime.KeepAlive(states)
}

// Appending to bytes of one state changes no other state.
func TestW03_SharedBytesHaveNoSpareCapacity(t *testing.T) {
	p := NewPacker(NewPool())
	pack := func(rv string) *Packed {
		raw := []byte(`{"spec":{"template":{"some":"thing"}}}`)
		packed, err := p.Pack(&appsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{Name: "web-1", ResourceVersion: rv, ManagedFields: []metav1.ManagedFieldsEntry{{FieldsV1: &metav1.FieldsV1{Raw: raw}}}},
			Data:       kruntime.RawExtension{Raw: raw},
		})
		require.NoError(t, err)
		return packed
	}
	opened, openedOld, ok := pack("2").OpenBoth(pack("1"))
	require.True(t, ok)
	now, was := opened.(*appsv1.ControllerRevision), openedOld.(*appsv1.ControllerRevision)
	for _, bytes := range [][2][]byte{{now.Data.Raw, was.Data.Raw}, {now.ManagedFields[0].FieldsV1.Raw, was.ManagedFields[0].FieldsV1.Raw}} {
		mine, other := append(bytes[0], "new"...), append(bytes[1], "old"...)
		require.True(t, strings.HasSuffix(string(mine), "new"), string(mine))
		require.True(t, strings.HasSuffix(string(other), "old"), string(other))
	}
	raw := []byte(`{"spec":{"template":{"some":"thing"}}}`)
	revision := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Name: "web-1", ManagedFields: []metav1.ManagedFieldsEntry{{FieldsV1: &metav1.FieldsV1{Raw: raw}}}},
		Data:       kruntime.RawExtension{Raw: raw},
	}
	for _, media := range []string{MediaProtobuf, MediaJSON} {
		kind := appsv1.SchemeGroupVersion.WithKind("ControllerRevision")
		decoder, err := newTyped[*appsv1.ControllerRevision](media, Options{Scheme: scheme.New(), Kind: kind, Pool: NewPool()})
		require.NoError(t, err)
		o, err := decoder.Object(encodeAs(t, media, kind, revision))
		require.NoError(t, err)
		for _, bytes := range [][]byte{o.Data.Raw, o.ManagedFields[0].FieldsV1.Raw} {
			require.Equal(t, len(bytes), cap(bytes), media)
		}
	}
}

// settings resembles an object of a custom resource: some of its fields decode themselves, and some
// have types that the reference reads.
type settings struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              *settingsSpec `json:"spec"`
}

type settingsSpec struct {
	Values  anyJSON            `json:"values"`
	Message stdjson.RawMessage `json:"message"`
	ByPort  map[int][]string   `json:"byPort"`
}

// anyJSON resembles apiextensionsv1.JSON.
type anyJSON struct{ Raw []byte }

func (s *anyJSON) UnmarshalJSON(data []byte) error { s.Raw = append(s.Raw[0:0], data...); return nil }

func (s *settings) DeepCopyObject() kruntime.Object { c := *s; return &c }

func TestW03_SharedListsHaveNoSpareCapacity(t *testing.T) {
	item := func(name string) string {
		return widgetText(name, `{"values":{"abc":"defghijklmnopqrstuvwxyz1"},"message":{"abc":"defghijklmnopqrstuvwxyz"},"byPort":{"80":["a","b","c"]}}`)
	}
	d := decoderOfType[*settings](t, MediaJSON, Options{Kind: widgetKind, Pool: NewPool()})
	items, _, err := readList(d, strings.NewReader(`{"apiVersion":"example.com/v1","kind":"WidgetList","items":[`+item("a")+","+item("b")+","+item("c")+`]}`))
	require.NoError(t, err)
	shared := items[1].Spec
	require.Same(t, shared, items[2].Spec)
	require.Len(t, shared.ByPort[80], 3)
	for name, room := range map[string]int{
		"a type that reads itself":        cap(shared.Values.Raw) - len(shared.Values.Raw),
		"json.RawMessage":                 cap(shared.Message) - len(shared.Message),
		"a list that the reference reads": cap(shared.ByPort[80]) - len(shared.ByPort[80]),
	} {
		require.Zero(t, room, name)
	}
}

// Packed objects share their owners.
func TestW03_SharedOwnersHaveNoSpareCapacity(t *testing.T) {
	p := pod("a")
	for n := range 13 {
		p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: fmt.Sprint(n), UID: types.UID(fmt.Sprint(n))})
	}
	d, err := NewPacker(nil).Decoder(MediaProtobuf, &Options{Kind: podKind, Type: reflect.TypeFor[*corev1.Pod]()})
	require.NoError(t, err)
	o, err := d.Object(encodeAs(t, MediaProtobuf, podKind, p))
	require.NoError(t, err)
	owners := o.GetOwnerReferences()
	require.Len(t, owners, 13)
	require.Equal(t, len(owners), cap(owners))
}

// BenchmarkOpening opens Pods that are then released: one after the other in list order, each with
// another controller than the previous one, and both states of an update. One operation opens one
// of these.
func BenchmarkOpening(b *testing.B) {
	const n = 20000
	p := NewPacker(NewPool())
	var packed, changed []*Packed
	for i := range n {
		pod := objects.Pod(1, i, objects.Options{})
		pod.ManagedFields = nil
		for _, states := range []*[]*Packed{&packed, &changed} {
			one, err := p.Pack(pod)
			require.NoError(b, err)
			*states = append(*states, one)
			pod.ResourceVersion += "1"
			pod.Status.PodIP = "10.1.2.3"
		}
	}
	inOrder := func(of []*Packed) []*Packed {
		return slices.SortedFunc(slices.Values(of), func(a, b *Packed) int { return strings.Compare(a.GetName(), b.GetName()) })
	}
	open := func(b *testing.B, of *Packed) {
		if _, err := p.unpack(of, &p.sharingDecoders); err != nil { // a second Open soon afterwards gets the same object
			b.Fatal(err)
		}
	}
	b.Run("in order", func(b *testing.B) {
		b.ReportAllocs()
		of := inOrder(packed)
		for i := 0; b.Loop(); i++ {
			open(b, of[i%n])
		}
	})
	b.Run("any", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			open(b, packed[i*201%n])
		}
	})
	b.Run("both states", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			o, old := changed[i*201%n], packed[i*201%n]
			if _, _, ok := p.unpackBoth(o.meta.codec, o, old); !ok {
				b.Fatal("not opened")
			}
		}
	})
}

// Generated code reads the value of a map entry beyond the end of the entry. The result then
// depends on the following bytes, although the bytes of the map are equal.
func TestW01_AnEntryThatRunsPastItsEnd(t *testing.T) {
	t.Parallel()
	data := "\x12\x05\x0a\x01k\x12\x04" // key k, and a value of four bytes, none of them in the entry
	b := newReuseTest(t, reflect.TypeFor[corev1.Secret]())
	require.Equal(t, "\x1a\x06Op", string(b.reference([]byte(data + "\x1a\x06Opaque")).Interface().(*corev1.Secret).Data["k"]))
	require.False(t, b.reference([]byte(data)).IsValid())
	for _, follows := range []string{"\x1a\x06Secret", ""} {
		require.Zero(t, b.require(t, []byte(data+follows), []byte(data+"\x1a\x06Opaque"), "v1.Secret"))
	}
}

// FuzzDecodeBeside decodes a message, reusing another one. The result must equal the reference's or
// be left to the reference.
func FuzzDecodeBeside(f *testing.F) {
	all := scheme.New()
	var contests []*reuseTest
	for i, kind := range fuzzKinds {
		o, err := all.New(kind)
		if err != nil || !protobuf.HasTable(reflect.TypeOf(o).Elem()) {
			continue
		}
		typ := reflect.TypeOf(o).Elem()
		e, err := protobuf.Open(MediaProtobuf, seedObject(f, MediaProtobuf, i, kind))
		require.NoError(f, err)
		contests = append(contests, newReuseTest(f, typ))
		f.Add(uint8(len(contests)-1), e.Raw, e.Raw)
	}
	var kept hostile.Kept
	f.Fuzz(func(t *testing.T, kind uint8, raw, was []byte) {
		kept.Nothing(t)
		b := contests[int(kind)%len(contests)]
		body := bytes.Clone(raw)
		withinBudget(t, append(body, was...), func() { b.require(t, raw, was, b.typ.String()) })
	})
}

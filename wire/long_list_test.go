package wire

import (
	"bytes"
	"io"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/scheme"
)

// chunks returns a body in pieces of random size, as a network does.
type chunks struct {
	r      io.Reader
	random *rand.Rand
}

func (c *chunks) Read(p []byte) (int, error) {
	return c.r.Read(p[:1+c.random.IntN(min(len(p), 1<<c.random.IntN(18)))])
}

// A list of half a megabyte or more is read as by the reference, however it arrives and wherever it
// is broken: the same items before the same error.
func TestW01_LongLists(t *testing.T) {
	t.Parallel()
	const seed, items = 20261120, 500
	random := rand.New(rand.NewPCG(seed, 5))
	all := scheme.New()
	f := newFiller(all)
	for _, media := range bothMedia {
		c := newContest[object.Object](t, media, Options{Scheme: all, Kind: podKind, MaxObjectBytes: 1 << 20}, NewPool())
		var shapes, bodies [][]byte
		for i := range 30 {
			shapes = append(shapes, encodeAs(t, media, podKind, f.object(reflect.TypeFor[corev1.Pod](), sparse, int64(i))))
		}
		for range items {
			bodies = append(bodies, shapes[random.IntN(len(shapes))])
		}
		sound := listOf(t, media, podKind, bodies)
		bodies[items/2] = map[string][]byte{
			MediaJSON:     []byte(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":1}}`),
			MediaProtobuf: protobufBody(t, podKind, []byte{0x0a, 0xff}),
		}[media]
		lists := map[string][]byte{
			"that is sound":      sound,
			"that is cut":        sound[:len(sound)*2/3],
			"with a broken item": listOf(t, media, podKind, bodies),
		}
		for _, name := range slices.Sorted(maps.Keys(lists)) {
			body := lists[name]
			want, wantMeta, wantErr := readList(c.reference, bytes.NewReader(body))
			require.Equal(t, name != "that is sound", wantErr != nil, "%v", wantErr)
			for _, d := range c.compiled {
				for _, in := range []string{"at once", "in chunks"} {
					about := "list " + name + " in " + media + ", " + in + ", " + d.name
					var r io.Reader = bytes.NewReader(body)
					if in == "in chunks" {
						r = &chunks{r, random}
					}
					got, meta, err := readList(d.typedDecoder, r)
					requireSame(t, wantErr, err, about)
					requireSame(t, wantMeta, meta, about)
					requireSame(t, want, got, about)
				}
			}
		}
	}
}

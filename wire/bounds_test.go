package wire

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire/internal/protobuf"
)

// The size limit applies to the object alone: it is the same in lists and watches, and the envelope
// does not count.
func TestLimitsApplyToTheObject(t *testing.T) {
	for _, media := range allMedia {
		p := pod("a")
		p.Annotations = map[string]string{"a": strings.Repeat("x", 1<<12)}
		alone := bytes.TrimPrefix(encodeAs(t, media, podKind, p), []byte("\xd9\xd9\xf7"))
		size := len(alone)
		switch media {
		case MediaJSON:
			size-- // the line break
		case MediaProtobuf:
			size = p.Size()
		}
		list := listOfOne(t, media, podListKind, alone)
		frame := rawFrame(t, media, "MODIFIED", alone)
		for _, opts := range []Options{{MaxObjectBytes: size}, {MaxObjectBytes: size - 1}} {
			d := podDecoder(t, media, opts)
			_, _, listErr := readList(d, bytes.NewReader(list))
			_, watchErr := readWatch(d, bytes.NewReader(frame))
			_, objectErr := d.Object(alone)
			for from, err := range map[string]error{"list": listErr, "watch": watchErr, "object": objectErr} {
				if opts.MaxObjectBytes == size {
					require.NoError(t, err, "%s, %s", media, from)
				} else {
					require.ErrorIs(t, err, ErrTooLarge, "%s, %s", media, from)
					require.Contains(t, err.Error(), fmt.Sprintf("more than %d", size-1), "%s, %s", media, from)
				}
			}
		}
	}
}

// The same applies to the depth limit.
func TestDepthLimitAppliesToTheObject(t *testing.T) {
	const depth = 10
	for _, media := range []string{MediaJSON, MediaCBOR} {
		deep := any("x")
		for range depth - 1 {
			deep = map[string]any{"a": deep}
		}
		u := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "w"}, "spec": deep}}
		u.SetGroupVersionKind(widgetKind)
		alone := encodeAs(t, media, widgetKind, u)
		list := listOfOne(t, media, widgetKind.GroupVersion().WithKind("WidgetList"), alone)
		for _, most := range []int{depth, depth - 5} {
			d := decoderOfType[*unstructured.Unstructured](t, media, Options{Kind: widgetKind, MaxDepth: most})
			_, _, listErr := readList(d, bytes.NewReader(list))
			_, watchErr := readWatch(d, bytes.NewReader(rawFrame(t, media, "MODIFIED", alone)))
			_, objectErr := d.Object(alone)
			for from, err := range map[string]error{"list": listErr, "watch": watchErr, "object": objectErr} {
				if most == depth {
					require.NoError(t, err, "%s, %s", media, from)
				} else {
					require.ErrorIs(t, err, ErrTooDeep, "%s, %s", media, from)
				}
			}
		}
	}
}

// The limits may be the largest numbers.
func TestHugeLimits(t *testing.T) {
	for _, media := range allMedia {
		d := podDecoder(t, media, Options{MaxObjectBytes: math.MaxInt, MaxDepth: math.MaxInt})
		_, err := d.Object(encodeAs(t, media, podKind, pod("a")))
		require.NoError(t, err, media)
		_, err = readWatch(d, bytes.NewReader(frameOf(t, media, "ADDED", podKind, pod("a"))))
		require.NoError(t, err, media)
		_, _, err = readList(d, bytes.NewReader(encodeAs(t, media, podListKind, podList("a"))))
		require.NoError(t, err, media)
	}
}

// listOfOne returns a list with one object, encoded by encodeAs.
func listOfOne(t *testing.T, media string, kind object.GVK, obj []byte) []byte {
	switch media {
	case MediaProtobuf:
		e, err := protobuf.Open(media, obj)
		require.NoError(t, err)
		return messagesList(t, kind, e.Raw)
	case MediaCBOR:
		of := func(s string) string { return string(byte(0x60+len(s))) + s }
		return []byte("\xa3" + of("apiVersion") + of(kind.GroupVersion().String()) + of("kind") + of(kind.Kind) + of("items") + "\x81" + string(bytes.TrimPrefix(obj, []byte("\xd9\xd9\xf7"))))
	}
	return fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"items":[%s]}`, kind.GroupVersion(), kind.Kind, obj)
}

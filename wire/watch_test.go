package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire/internal/frame"
)

// frameOf encodes a watch event as the API server does.
func frameOf(t testing.TB, media, typ string, kind object.GVK, obj runtime.Object) []byte {
	t.Helper()
	return rawFrame(t, media, typ, encodeAs(t, media, kind, obj))
}

func rawFrame(t testing.TB, media, typ string, obj []byte) []byte {
	t.Helper()
	if media == MediaJSON {
		return fmt.Appendf(nil, "{\"type\":%q,\"object\":%s}\n", typ, obj)
	}
	if media == MediaCBOR {
		return slices.Concat([]byte("\xd9\xd9\xf7\xa2\x64type"), []byte{frame.CBORText<<5 | byte(len(typ))}, []byte(typ), []byte("\x66object"), obj)
	}
	raw, err := (&metav1.WatchEvent{Type: typ, Object: runtime.RawExtension{Raw: obj}}).Marshal()
	require.NoError(t, err)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(raw))), raw...)
}

// The offset of a syntax error in a frame counts from the beginning of the frame.
func TestL21_PlacesInFrames(t *testing.T) {
	sound := string(frameOf(t, MediaJSON, "ADDED", podKind, pod("a")))
	for frame, want := range map[string]string{
		`{"type" "ADDED","object":{}}`:           "frame 2: malformed body: want ':' at byte 8 of the frame",
		`{"type":"ADDED" "object":{}}`:           "at byte 16 of the frame",
		`{"type":"ADDED","object":{"a":"` + "\n": fmt.Sprintf("at byte %d of the body", 2*len(sound)+31),
	} {
		_, err := readWatch(podDecoder(t, MediaJSON, Options{}), strings.NewReader(sound+sound+frame))
		require.ErrorIs(t, err, ErrSyntax)
		require.ErrorContains(t, err, want)
	}
}

func readWatch[T object.Object](d typedDecoder[T], body io.Reader) (events []Event[T], err error) {
	for ev, err := range d.Watch(body, nil) {
		if err != nil {
			return events, err
		}
		events = append(events, ev)
	}
	return events, nil
}

var statusKind = object.GVK{Version: "v1", Kind: "Status"}

func TestWatchYieldsEvents(t *testing.T) {
	for _, media := range allMedia {
		bookmark := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "9", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}
		var body, sizes = []byte{}, []int{}
		for _, f := range [][]byte{
			frameOf(t, media, "ADDED", podKind, pod("a")),
			frameOf(t, media, "MODIFIED", podKind, pod("a")),
			frameOf(t, media, "DELETED", podKind, pod("a")),
			frameOf(t, media, "BOOKMARK", podKind, bookmark),
		} {
			body = append(body, f...)
			sizes = append(sizes, len(bytes.TrimRight(f, "\n")))
		}
		for name, r := range map[string]io.Reader{"whole": bytes.NewReader(body), "byte by byte": iotest.OneByteReader(bytes.NewReader(body))} {
			events, err := readWatch(podDecoder(t, media, Options{}), r)
			require.NoError(t, err, "%s %s", media, name)
			require.Len(t, events, 4)
			for i, want := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted, watch.Bookmark} {
				require.Equal(t, want, events[i].Type)
				require.Equal(t, sizes[i], events[i].Bytes)
			}
			require.Equal(t, pod("a"), events[1].Object)
			require.Equal(t, bookmark, events[3].Object)
		}
	}
}

// The stream may end between two frames and nowhere else.
func TestWatchEndsOnlyBetweenFrames(t *testing.T) {
	for _, media := range allMedia {
		first := frameOf(t, media, "ADDED", podKind, pod("a"))
		body := append(first, frameOf(t, media, "ADDED", podKind, pod("b"))...)
		clean := map[int]int{0: 0, len(first): 1, len(body): 2}
		if media == MediaJSON { // the line break is not part of the frame
			clean[len(first)-1], clean[len(body)-1] = 1, 2
		}
		for n := range len(body) + 1 {
			events, err := readWatch(podDecoder(t, media, Options{}), bytes.NewReader(body[:n]))
			if want, ok := clean[n]; ok {
				require.NoError(t, err, "%s cut at %d", media, n)
				require.Len(t, events, want)
				continue
			}
			require.ErrorIs(t, err, io.ErrUnexpectedEOF, "%s cut at %d", media, n)
		}
	}
}

func TestWatchPassesErrorsOfTheTransport(t *testing.T) {
	reset := errors.New("connection reset")
	for _, media := range allMedia {
		body := frameOf(t, media, "ADDED", podKind, pod("a"))
		for n := range len(body) + 1 {
			_, err := readWatch(podDecoder(t, media, Options{}), io.MultiReader(bytes.NewReader(body[:n]), iotest.ErrReader(reset)))
			require.ErrorIs(t, err, reset, "%s after %d bytes", media, n)
			var e *Error
			require.False(t, errors.As(err, &e), "%s after %d bytes: %v", media, n, err)
		}
	}
}

// Received is when the last byte of the frame came, also for a frame whose
// bytes came in parts, and for one that waited in the buffer behind another.
func TestReceivedIsWhenTheLastByteCame(t *testing.T) {
	for _, media := range allMedia {
		synctest.Test(t, func(t *testing.T) {
			a, b := frameOf(t, media, "ADDED", podKind, pod("a")), frameOf(t, media, "ADDED", podKind, pod("b"))
			r, w := io.Pipe()
			start := time.Now()
			go func() {
				w.Write(a[:10])
				time.Sleep(time.Minute)
				w.Write(append(a[10:], b...))
				w.Close()
			}()
			n := 0
			for ev, err := range podDecoder(t, media, Options{}).Watch(r, nil) {
				require.NoError(t, err)
				require.Equal(t, time.Minute, ev.Received.Sub(start), media)
				require.Equal(t, time.Duration(n)*time.Second, ev.Decoded.Sub(ev.Received), media)
				time.Sleep(time.Second) // a slow consumer does not make the next frame younger
				n++
			}
			require.Equal(t, 2, n)
		})
	}
}

// A frame is yielded as soon as it is there, not when the next one comes.
func TestWatchDoesNotWaitForTheNextFrame(t *testing.T) {
	for _, media := range allMedia {
		synctest.Test(t, func(t *testing.T) {
			f := frameOf(t, media, "ADDED", podKind, pod("a"))
			r, w := io.Pipe()
			seen := 0
			go func() {
				for range 3 {
					w.Write(bytes.TrimRight(f, "\n"))
					synctest.Wait()
					seen--
				}
				w.Close()
			}()
			for _, err := range podDecoder(t, media, Options{}).Watch(r, nil) {
				require.NoError(t, err)
				seen++
				require.Equal(t, 1, seen, media)
			}
		})
	}
}

func TestErrorEvent(t *testing.T) {
	gone := apierrors.NewResourceExpired("too old").ErrStatus
	for _, media := range allMedia {
		body := append(frameOf(t, media, "ADDED", podKind, pod("a")), frameOf(t, media, "ERROR", statusKind, &gone)...)
		body = append(body, frameOf(t, media, "ADDED", podKind, pod("b"))...)
		events, err := readWatch(podDecoder(t, media, Options{}), bytes.NewReader(body))
		require.Len(t, events, 1)
		require.True(t, apierrors.IsResourceExpired(err), "%s: %v", media, err)

		_, err = readWatch(podDecoder(t, media, Options{}), bytes.NewReader(frameOf(t, media, "ERROR", podKind, pod("a"))))
		require.ErrorIs(t, err, ErrKind, media)
	}
}

func TestL21_WatchRefusesBadFrames(t *testing.T) {
	garbage := map[string][]byte{MediaJSON: []byte("[}"), MediaProtobuf: []byte("[}"), MediaCBOR: {0x80, 0x1c}}
	text := map[string][]byte{MediaJSON: []byte(`"x"`), MediaProtobuf: []byte(`"x"`), MediaCBOR: []byte("\x61x")}
	for _, media := range allMedia {
		for name, c := range map[string]struct {
			frame []byte
			want  error
		}{
			"unknown type":       {frameOf(t, media, "SYNC", podKind, pod("a")), ErrEventType},
			"no type":            {frameOf(t, media, "", podKind, pod("a")), ErrEventType},
			"another kind":       {frameOf(t, media, "ADDED", widgetKind, pod("a")), ErrKind},
			"no kind":            {frameOf(t, media, "ADDED", object.GVK{}, pod("a")), ErrKind},
			"no name":            {frameOf(t, media, "ADDED", podKind, &corev1.Pod{}), ErrNoName},
			"too large":          {frameOf(t, media, "ADDED", podKind, pod(strings.Repeat("a", 8000))), ErrTooLarge},
			"object is garbage":  {rawFrame(t, media, "ADDED", garbage[media]), ErrSyntax},
			"object is a string": {rawFrame(t, media, "ADDED", text[media]), ErrSyntax},
		} {
			body := append(frameOf(t, media, "ADDED", podKind, pod("a")), c.frame...)
			events, err := readWatch(podDecoder(t, media, Options{MaxObjectBytes: 4000}), bytes.NewReader(body))
			require.ErrorIs(t, err, c.want, "%s %s", media, name)
			require.Len(t, events, 1, "%s %s", media, name)
			var e *Error
			require.ErrorAs(t, err, &e, "%s %s", media, name)
			require.Equal(t, "frame 1", e.Where)
		}
	}
	for _, body := range []string{`[]`, `{"type":"ADDED"}`, `{"type":1,"object":{}}`, `{"type":"ADDED","object":null}`, `{,}`, `x`, `{"type":"ADDED" "object":{}}`} {
		_, err := readWatch(podDecoder(t, MediaJSON, Options{}), strings.NewReader(body))
		require.ErrorIs(t, err, ErrSyntax, body)
	}
}

// A frame that has lost a quote must not swallow the changes after it: the
// line break inside what looks like a string gives it away.
func TestL21_LostQuoteIsFoundAtTheEndOfItsFrame(t *testing.T) {
	whole := string(frameOf(t, MediaJSON, "ADDED", podKind, pod("a")))
	for at, c := range whole {
		if c != '"' {
			continue
		}
		garbled := whole[:at] + "?" + whole[at+1:]
		beyond := iotest.ErrReader(errors.New("read beyond the frame"))
		_, err := readWatch(podDecoder(t, MediaJSON, Options{}), io.MultiReader(strings.NewReader(garbled), beyond))
		require.ErrorIs(t, err, ErrSyntax, garbled)
	}
}

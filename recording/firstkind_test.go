package recording

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// inProtobuf returns an object in protobuf.
func inProtobuf(t *testing.T, kind, raw string) string {
	text, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: kind}, Raw: []byte(raw)}).Marshal()
	require.NoError(t, err)
	return "k8s\x00" + string(text)
}

// inCBOR returns a value in CBOR, with the fields in an API server's order.
func inCBOR(t *testing.T, value any) string {
	encoder, err := cbor.EncOptions{Sort: cbor.SortBytewiseLexical}.EncMode()
	require.NoError(t, err)
	text, err := encoder.Marshal(value)
	require.NoError(t, err)
	return "\xd9\xd9\xf7" + string(text)
}

// The first kind is found in every encoding and position that an API server uses.
func TestTheFirstKindOfABody(t *testing.T) {
	sorted, err := json.Marshal(map[string]any{"items": []any{map[string]any{"data": "x", "kind": "A"}}, "kind": "AList"})
	require.NoError(t, err)
	long := "A" + strings.Repeat("b", 40)
	for body, want := range map[string]string{
		`{"kind":"SecretList","items":[{"kind":"Secret"`: "SecretList",
		`{"type":"ADDED","object":{"kind" : "Secret"`:    "Secret",
		string(sorted):                                  "A",
		inProtobuf(t, "SecretList", "kind"):             "SecretList",
		inProtobuf(t, long, "kind"):                     long,
		"\x00\x00\x01\x04" + inProtobuf(t, "X", "kind"): "X",
		inCBOR(t, map[string]any{"kind": "Secret", "data": map[string]any{"a": "b"}}): "Secret",
		inCBOR(t, map[string]any{"kind": long}):                                       long,
		`{"items":[`:                                                                  "",
		"kindest":                                                                     "",
		"":                                                                            "",
		"k8s\x00":                                                                     "",
	} {
		kind, found := firstKind([]byte(body))
		require.Equal(t, want, kind, "%q", body)
		require.Equal(t, want != "", found, "%q", body)
	}
	for _, whole := range []string{inProtobuf(t, long, "kind"), inCBOR(t, map[string]any{"kind": long}), `{"kind":"` + long + `"}`} {
		for n := range len(whole) {
			kind, _ := firstKind([]byte(whole[:n]))
			require.Contains(t, []string{"", long}, kind, "a part is no name")
		}
	}
}

// No part of a response is written before it is known whether it contains Secrets,
// however it arrives.
func TestSecretsAreKnownByTheAnswer(t *testing.T) {
	const word = "open sesame"
	for _, kind := range []string{"Secret", "Pod"} {
		object := map[string]any{"apiVersion": "v1", "data": map[string]any{"word": word}, "kind": kind}
		event, err := (&metav1.WatchEvent{Type: "ADDED", Object: runtime.RawExtension{Raw: []byte(inProtobuf(t, kind, word))}}).Marshal()
		require.NoError(t, err)
		frame := string(binary.BigEndian.AppendUint32(nil, uint32(len(event)))) + string(event)
		for encoding, body := range map[string]string{
			"JSON":             fmt.Sprintf(`{"apiVersion":"v1","items":[{"apiVersion":"v1","data":{"word":%q},"kind":"%s"}],"kind":"%[2]sList"}`, word, kind),
			"protobuf":         inProtobuf(t, kind+"List", word),
			"protobuf, framed": frame,
			"CBOR":             inCBOR(t, object),
			"CBOR, framed":     inCBOR(t, map[string]any{"type": "ADDED", "object": object}),
		} {
			for _, size := range []int{1, 3, 7, len(body)} {
				var all []part
				for at := 0; at < len(body); at += size {
					all = append(all, part{0, body[at:min(at+size, len(body))], nil})
				}
				f := recorded(t, Options{}, func(r *Recorder) {
					told(t, r.RoundTripper(serve(200, all...), nil), get(t, "https://example.com/apis/example.com/v1/mirrors"))
				})
				require.NoError(t, f.Damage)
				require.Len(t, f.Requests, 1)
				got, err := io.ReadAll(f.Body(f.Requests[0]))
				require.NoError(t, err)
				require.EqualValues(t, len(body), f.Requests[0].Bytes)
				require.Equal(t, kind == "Secret", f.Requests[0].Withheld, "%s, %d bytes at a time", encoding, size)
				want := body
				if kind == "Secret" {
					want = ""
				}
				require.Equal(t, want, string(got))
			}
		}
	}
}

// A body that may be from the API and does not name a kind near its start is withheld.
func TestABodyWithoutAKindIsWithheld(t *testing.T) {
	for body, withheld := range map[string]bool{
		`{"data":"` + strings.Repeat("x", 3*mostHead) + `","kind":"Pod"}`: true,
		`{"data":"` + strings.Repeat("x", mostHead/2):                     true,
		strings.Repeat("x", 2*mostHead):                                   false,
	} {
		f := recorded(t, Options{}, func(r *Recorder) {
			from := r.RoundTripper(serve(200, part{0, body[:len(body)/2], nil}, part{0, body[len(body)/2:], nil}), nil)
			told(t, from, get(t, pods))
		})
		require.Equal(t, withheld, f.Requests[0].Withheld, "%.20s", body)
		got, err := io.ReadAll(f.Body(f.Requests[0]))
		require.NoError(t, err)
		require.Equal(t, !withheld, bytes.Equal([]byte(body), got))
	}
}

// A response that is cut off before its first kind may be of a Secret.
func TestABodyThatEndsBeforeItsKindIsWithheld(t *testing.T) {
	for _, body := range []string{
		`{"type":"ADDED","object":{"apiVersion":"v1","data":{"word":"open sesame"},`,
		"\xd9\xd9\xf7\xa3\x44data",
	} {
		for name, tail := range map[string]part{"cut off": {0, "", io.ErrUnexpectedEOF}, "at an end": {0, "", io.EOF}} {
			f := recorded(t, Options{}, func(r *Recorder) {
				told(t, r.RoundTripper(serve(200, part{0, body, nil}, tail), nil), get(t, "https://example.com/apis/example.com/v1/mirrors?watch=true"))
			})
			require.True(t, f.Requests[0].Withheld, "%q %s", body, name)
			got, err := io.ReadAll(f.Body(f.Requests[0]))
			require.NoError(t, err)
			require.Empty(t, got, name)
		}
	}
}

// Long headers, whose characters JSON escapes, do not exceed a record.
func TestLongHeadersAreCutOff(t *testing.T) {
	long := strings.Repeat("<&>", 4<<10)
	f := recorded(t, Options{}, func(r *Recorder) {
		from := r.RoundTripper(roundTripper(func(req *http.Request) (*http.Response, error) {
			return response(req, Answer{Status: 200, ContentType: long, RetryAfter: long, Encoding: long}, &parts{}), nil
		}), nil)
		for range 2 {
			told(t, from, get(t, pods))
		}
	})
	require.NoError(t, f.Damage)
	require.Len(t, f.Requests, 2)
}

// A gateway's error names no kind and holds no object, so it is recorded, unless it names the kind of a Secret.
func TestErrorsWithoutAKindAreRecorded(t *testing.T) {
	for body, withheld := range map[string]bool{`{"message":"no healthy upstream"}`: false, `{"object":{"kind":"Secret"}}`: true} {
		f := recorded(t, Options{}, func(r *Recorder) {
			told(t, r.RoundTripper(serve(502, part{0, body, nil}), nil), get(t, pods))
		})
		require.Equal(t, withheld, f.Requests[0].Withheld)
		require.Equal(t, withheld, AllWithheld(f.Requests))
		if !withheld {
			require.Contains(t, strings.Join(told(t, f.Replay(ReplayOptions{Speed: math.Inf(1)}), get(t, pods)), " "), body)
		}
	}
}

// A response without a kind is withheld. The informer's other responses are replayed.
func TestAWithheldPageIsNoSecret(t *testing.T) {
	const list = `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`
	f := recorded(t, Options{}, func(r *Recorder) {
		told(t, r.RoundTripper(serve(200, part{0, `{"message":"please wait"}`, nil}), nil), get(t, pods))
		told(t, r.RoundTripper(serve(200, part{0, list, nil}), nil), get(t, pods))
	})
	require.True(t, f.Requests[0].Withheld)
	require.False(t, AllWithheld(f.Requests))
	require.True(t, AllWithheld(f.Requests[:1]))
	replay := f.Replay(ReplayOptions{Speed: math.Inf(1)})
	require.Contains(t, strings.Join(told(t, replay, get(t, pods)), " "), "200")
	require.Contains(t, strings.Join(told(t, replay, get(t, pods)), " "), list)
}

package wire

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/wire/internal/frame"
)

// The selector in a list is reported at its end, in every encoding.
func TestOnSelectorReportsTheSelector(t *testing.T) {
	const selector = "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')"
	json := `{"metadata":{"resourceVersion":"1","shardInfo":{"selector":"` + selector + `"}},"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"a"}}]}`
	info := lengthPrefixed(5, lengthPrefixed(1, []byte(selector)))
	text := func(s string) string {
		if len(s) < 24 {
			return string(rune(0x60+len(s))) + s
		}
		return "\x78" + string([]byte{byte(len(s))}) + s
	}
	cbor := "\xa4" + text("kind") + text("PodList") + text("apiVersion") + text("v1") + text("items") + "\x80" +
		text("metadata") + "\xa1" + text("shardInfo") + "\xa1" + text("selector") + text(selector)
	for media, body := range map[string][]byte{
		MediaJSON:     []byte(json),
		MediaProtobuf: listWithMetadata(t, info),
		MediaCBOR:     []byte(cbor),
	} {
		for _, with := range []bool{true, false} {
			if !with {
				body = bytes.ReplaceAll(body, []byte("shardInfo"), []byte("otherInfo"))
				body = bytes.Replace(body, info, lengthPrefixed(6, info[2:]), 1)
			}
			var told []string
			_, _, err := readList(podDecoder(t, media, Options{}).Selected(func(s string) { told = append(told, s) }), bytes.NewReader(body))
			require.NoError(t, err, media)
			require.Equal(t, with, len(told) == 1 && told[0] == selector, "%s: %q", media, told)
			if with {
				_, _, err = readList(podDecoder(t, media, Options{}).Selected(func(string) { t.Error("of a list that was cut") }), bytes.NewReader(body[:len(body)-1]))
				require.Error(t, err, media)
			}
		}
	}
}

// listWithMetadata returns the body of an empty list of Pods.
func listWithMetadata(t *testing.T, metadata []byte) []byte {
	t.Helper()
	length := func(number byte, content []byte) []byte {
		return append([]byte{number<<3 | frame.WireBytes, byte(len(content)) | 0x80, byte(len(content) >> 7)}, content...)
	}
	kind := append(lengthPrefixed(1, []byte("v1")), lengthPrefixed(2, []byte("PodList"))...)
	return append(append([]byte("k8s\x00"), lengthPrefixed(1, kind)...), length(2, length(1, metadata))...)
}

package wire

import (
	"bytes"
	"encoding/json"

	"github.com/millrace-dev/millrace/wire/internal/cbor"
	"github.com/millrace-dev/millrace/wire/internal/frame"
	"github.com/millrace-dev/millrace/wire/internal/guard"
	"github.com/millrace-dev/millrace/wire/internal/protobuf"
)

// The metadata of a list names the selector by which the server has selected (KEP-5866) in a
// field that apimachinery knows since v0.36. What is not as expected says nothing.

// selectedJSON returns the selector in the metadata of a list.
func selectedJSON(metadata []byte) string {
	if !bytes.Contains(metadata, []byte("shardInfo")) {
		return ""
	}
	var m struct {
		ShardInfo struct {
			Selector string `json:"selector"`
		} `json:"shardInfo"`
	}
	if json.Unmarshal(metadata, &m) != nil {
		return ""
	}
	return m.ShardInfo.Selector
}

// selectedProtobuf returns the selector in the metadata of a list.
func selectedProtobuf(metadata []byte) string {
	return string(fieldOf(fieldOf(metadata, 5), 1))
}

// fieldOf returns the last field of a message with a number.
func fieldOf(msg []byte, number int) (content []byte) {
	for len(msg) > 0 {
		f, rest, err := protobuf.NextField(msg)
		if err != nil {
			return nil
		}
		if f.Number == number && f.Wire == frame.WireBytes {
			content = f.Bytes
		}
		msg = rest
	}
	return content
}

// selectedCBOR returns the selector in the metadata of a list, of which these are the fields.
func selectedCBOR(list []byte) string {
	if !bytes.Contains(list, []byte("shardInfo")) {
		return ""
	}
	var fields cbor.Tree
	if cbor.Check(guard.Untyped, list) != nil || cbor.Unmarshal(list, &fields) != nil {
		return ""
	}
	metadata, _ := fields["metadata"].(map[string]any)
	info, _ := metadata["shardInfo"].(map[string]any)
	selector, _ := info["selector"].(string)
	return selector
}

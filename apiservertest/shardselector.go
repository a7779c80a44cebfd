package apiservertest

import (
	"fmt"
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/shard"
)

// shardSelector selects objects by the hash of their UID or namespace (KEP-5866). Nil
// selects all.
type shardSelector struct {
	field  string
	ranges []hashRange
}

// hashRange is the half-open range of hashes [start, end), as hexadecimal numbers with 16 digits, or 17 for
// 2^64.
type hashRange struct{ start, end string }

// SetShardSelectors turns filtering by shardSelector on or off for later requests; see
// Options.ShardSelectors.
func (s *Server) SetShardSelectors(on bool) { s.shardSelectors.Store(on) }

func (s *shardSelector) matches(o object.Head) bool {
	if s == nil {
		return true
	}
	text := string(o.GetUID())
	if s.field == "object.metadata.namespace" {
		text = o.GetNamespace()
	}
	hash := fmt.Sprintf("%016x", shard.Hash(text))
	for _, r := range s.ranges {
		if hash >= r.start && (hash < r.end || len(r.end) > len(hash)) {
			return true
		}
	}
	return false
}

// String formats the selector the way the server echoes it.
func (s *shardSelector) String() string {
	if s == nil {
		return ""
	}
	parts := make([]string, len(s.ranges))
	for n, r := range s.ranges {
		parts[n] = fmt.Sprintf("shardRange(%s, '0x%s', '0x%s')", s.field, r.start, r.end)
	}
	return strings.Join(parts, " || ")
}

// shardRange matches one range of a selector.
var shardRange = regexp.MustCompile(`^\s*shardRange\(\s*([a-z.]+)\s*,\s*'0x([0-9a-f]+)'\s*,\s*'0x([0-9a-f]+)'\s*\)\s*$`)

// parseShardSelector parses the parameter. The real server accepts any equivalent CEL expression and
// reports errors differently.
func parseShardSelector(text string) (*shardSelector, error) {
	s := &shardSelector{}
	for part := range strings.SplitSeq(text, "||") {
		found := shardRange.FindStringSubmatch(part)
		if found == nil {
			return nil, invalidShardSelector("%.40q is no shardRange()", part)
		}
		field, r := found[1], hashRange{found[2], found[3]}
		switch {
		case field != "object.metadata.uid" && field != "object.metadata.namespace":
			return nil, invalidShardSelector("unsupported field path %q", field)
		case s.field != "" && s.field != field:
			return nil, invalidShardSelector("all shard ranges must use the same field")
		case len(r.start) != 16 || len(r.end) != 16 && r.end != "1"+strings.Repeat("0", 16):
			return nil, invalidShardSelector("want 16 digits")
		case len(r.end) == 16 && r.start >= r.end:
			return nil, invalidShardSelector("the start is not less than the end")
		}
		s.field, s.ranges = field, append(s.ranges, r)
	}
	return s, nil
}

// invalidShardSelector returns an error that the real server reports as an unexpected internal
// error.
func invalidShardSelector(format string, args ...any) error {
	return unclassified("invalid shard selector: " + fmt.Sprintf(format, args...))
}

// shardInfo is the selector in a list's metadata, a field added in apimachinery v0.36.
type shardInfo struct {
	Selector string `json:"selector"`
}

// listMeta is list metadata with that field.
type listMeta struct {
	metav1.ListMeta `json:",inline"`
	ShardInfo       *shardInfo `json:"shardInfo,omitempty"`
}

// appendShardInfo appends the field to protobuf list metadata.
func appendShardInfo(metadata []byte, info *shardInfo) []byte {
	if info == nil {
		return metadata
	}
	return appendField(metadata, 5, appendField(nil, 1, []byte(info.Selector)))
}

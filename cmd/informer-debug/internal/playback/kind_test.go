package playback

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestKindIsReadFromTheRecording(t *testing.T) {
	for body, want := range map[string]string{
		`{"apiVersion":"v1","items":[],"kind":"WidgetList"}`:                                                "Widget",
		`{"apiVersion":"v1","items":[{"a":{"kind":"X"},"ownerReferences":[{"kind":"Y"}],"kind":"Widget"}]}`: "Widget",
		`{"type":"ADDED","object":{"data":{"kind":"X"},"kind":"Widget"}}`:                                   "Widget",
		`{"type":"ERROR","object":{"kind":"Status"}}{"type":"ADDED","object":{"kind":"Widget"}}`:            "Widget",
		`{"kind":"Status","code":410}`:                                                                      "",
		`{"metadata":{"kind":"X"},"list":["kind","X"],"items":[{"spec":[["kind"]],"kind":"Widget"}]}`:       "Widget",
		`k8s`: "",
		``:    "",
	} {
		assert.Equal(t, want, kindIn(strings.NewReader(body)), body)
	}
}

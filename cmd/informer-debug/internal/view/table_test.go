package view

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/sharedinformer"
)

func TestSecretValuesAreNotShownInPassing(t *testing.T) {
	for _, kind := range []string{"Secret", "ClusterSecret"} {
		a := treeOf(map[string]any{"apiVersion": "v1", "kind": kind, "data": map[string]any{"password": "b2xk"}})
		b := treeOf(map[string]any{"apiVersion": "v1", "kind": kind, "data": map[string]any{"password": "bmV3", "more": "eA=="}})
		var out bytes.Buffer
		p := &tablePrinter{w: &out, wide: true, measure: func() widths { return widths{} }}
		require.NoError(t, p.print(&change{kind: sharedinformer.Update, object: b, old: a}))
		assert.Contains(t, out.String(), "+data.more, data.password\n", kind)
		assert.NotContains(t, out.String(), "bmV3", kind)
	}
}

func TestMissedDeletionIsMarked(t *testing.T) {
	var out bytes.Buffer
	p := &tablePrinter{w: &out, measure: func() widths { return widths{} }}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", ResourceVersion: "7"}}
	require.NoError(t, p.print(&change{kind: sharedinformer.Delete, object: pod, missed: true}))
	assert.Regexp(t, `^- .* shop/web-1  +7  - +missed deletion; this is the last known state\n$`, out.String())
}

package apiservertest_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/object"
)

// gadget is a user's Go type for a custom resource, as in examples/memcached.
type gadget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Data map[string]string `json:"data,omitempty"`
}

func (g *gadget) DeepCopyObject() runtime.Object {
	return &gadget{g.TypeMeta, *g.ObjectMeta.DeepCopy(), maps.Clone(g.Data)}
}

func gadgets() apiservertest.Resource {
	return apiservertest.Resource{
		GVR: object.GVR{Group: "example.com", Version: "v1", Resource: "gadgets"}, Kind: "Gadget", Namespaced: true, Generation: true,
	}
}

// held is a Go type that is no pointer.
type held struct{ *gadget }

func (h held) DeepCopyObject() runtime.Object { return held{h.gadget.DeepCopyObject().(*gadget)} }

// Requests cannot write objects whose Go type is no pointer, but the test can, and requests read them.
func TestObjectsWhoseGoTypeIsNoPointerAreServed(t *testing.T) {
	res := gadgets()
	res.New = func() object.Object { return held{&gadget{}} }
	r := newRig(t, apiservertest.Options{Resources: []apiservertest.Resource{res}})
	_, err := r.Put(held{&gadget{
		TypeMeta:   metav1.TypeMeta{APIVersion: "example.com/v1", Kind: "Gadget"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "w"},
	}})
	require.NoError(t, err)
	code, body, _ := r.do("GET", "/apis/example.com/v1/namespaces/shop/gadgets/w", "")
	require.Equal(t, http.StatusOK, code, string(body))
	require.Contains(t, string(body), `"name":"w"`)
}

// The same rules apply to a custom resource whether or not the test gives it a Go type: a real server has none.
func TestACustomResourceWithAGoTypeFollowsTheRulesForCustomResources(t *testing.T) {
	typed := gadgets()
	typed.New = func() object.Object { return &gadget{} }
	for name, res := range map[string]apiservertest.Resource{"untyped": gadgets(), "typed": typed} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, apiservertest.Options{Resources: []apiservertest.Resource{res}})
			const all = "/apis/example.com/v1/namespaces/shop/gadgets"
			code, body, _ := r.do("POST", all, `{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"w"}}`)
			require.Equal(t, http.StatusCreated, code, string(body))
			t.Run("update without a version", func(t *testing.T) {
				code, body, _ := r.do("PUT", all+"/w", `{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"w"},"data":{"a":"b"}}`)
				require.Equal(t, http.StatusUnprocessableEntity, code, string(body))
			})
			t.Run("strategic merge patch", func(t *testing.T) {
				code, body, _ := r.do("PATCH", all+"/w", `{"data":{"a":"c"}}`, "Content-Type", "application/strategic-merge-patch+json")
				require.Equal(t, http.StatusUnsupportedMediaType, code, string(body))
			})
			t.Run("client that prefers protobuf", func(t *testing.T) {
				code, body, _ := r.do("GET", all+"/w", "", "Accept", "application/vnd.kubernetes.protobuf,application/json")
				require.Equal(t, http.StatusOK, code, string(body))
			})
		})
	}
}

// Without a status subresource, changes to the status increment metadata.generation, so a controller that filters
// by generation reconciles forever.
func TestWithoutAStatusSubresourceTheStatusCounts(t *testing.T) {
	r := newRig(t, apiservertest.Options{Resources: []apiservertest.Resource{gadgets()}})
	const all = "/apis/example.com/v1/namespaces/shop/gadgets"
	code, body, _ := r.do("POST", all, `{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"w"}}`)
	require.Equal(t, http.StatusCreated, code, string(body))
	code, body, _ = r.do("PATCH", all+"/w", `{"status":{"ready":true}}`, "Content-Type", "application/merge-patch+json")
	require.Equal(t, http.StatusOK, code, string(body))
	require.Contains(t, string(body), `"generation":2`)
}

// Labels and annotations are validated on updates, too.
func TestUpdatesWithInvalidMetadataAreRejected(t *testing.T) {
	for name, meta := range map[string]string{
		"label value": `{"name":"c","labels":{"owner":"shop/web"}}`,
		"label key":   `{"name":"c","labels":{"a b":"x"}}`,
		"annotations": `{"name":"c","annotations":{"big":"` + strings.Repeat("x", 300<<10) + `"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, apiservertest.Options{})
			const all = "/api/v1/namespaces/shop/configmaps"
			code, body, _ := r.do("POST", all, `{"metadata":`+meta+`}`)
			require.Equal(t, http.StatusUnprocessableEntity, code, string(body[:min(len(body), 300)]))
			code, body, _ = r.do("POST", all, `{"metadata":{"name":"c"}}`)
			require.Equal(t, http.StatusCreated, code, string(body))
			for _, write := range []struct{ method, query, mediaType string }{
				{"PUT", "", "application/json"},
				{"PATCH", "", "application/merge-patch+json"},
				{"PATCH", "", "application/strategic-merge-patch+json"},
				{"PATCH", "?fieldManager=me", "application/apply-patch+yaml"},
			} {
				code, body, _ := r.do(write.method, all+"/c"+write.query, `{"apiVersion":"v1","kind":"ConfigMap","metadata":`+meta+`}`, "Content-Type", write.mediaType)
				require.Equal(t, http.StatusUnprocessableEntity, code, "%v: %s", write, body[:min(len(body), 200)])
			}
		})
	}
}

// Names of JSON fields are case-sensitive. Unknown ones are rejected if the request asks for that.
func TestNamesOfFields(t *testing.T) {
	r := newRig(t, apiservertest.Options{})
	const all = "/api/v1/namespaces/shop/configmaps"
	code, body, _ := r.do("POST", all, `{"metadata":{"name":"c"},"Data":{"a":"b"}}`)
	require.Equal(t, http.StatusCreated, code, string(body))
	t.Run("case", func(t *testing.T) { require.NotContains(t, string(body), `"a":"b"`) })
	t.Run("strict", func(t *testing.T) {
		code, body, _ := r.do("POST", all+"?fieldValidation=Strict", `{"metadata":{"name":"d"},"dta":{"a":"b"}}`)
		require.Equal(t, http.StatusBadRequest, code, string(body))
	})
}

package webhook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"github.com/millrace-dev/millrace/test/hostile"
	"github.com/millrace-dev/millrace/webhook"
)

// answered posts a body within the budget. It requires that the answer says what was
// wrong with the body, or is a review with the UID that was asked with.
func answered(t *testing.T, h http.Handler, body []byte) {
	t.Helper()
	var w *httptest.ResponseRecorder
	hostile.Budget{Memory: 1 << 20, MemoryPerByte: 2000}.Within(t, len(body), func() {
		w = httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body)))
	})
	if w.Code != http.StatusOK {
		require.Equal(t, http.StatusBadRequest, w.Code, w.Body.String())
		return
	}
	var asked struct {
		Request struct {
			UID string `json:"uid"`
		} `json:"request"`
	}
	var got struct{ Response *struct{ UID string } }
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
	require.NotNil(t, got.Response)
	if kjson.UnmarshalCaseSensitivePreserveInts(body, &asked) == nil && bytes.Count(bytes.ToLower(body), []byte("uid")) == 1 {
		require.Equal(t, asked.Request.UID, got.Response.UID)
	}
}

// FuzzAdmission sends what may be an admission review to a webhook that changes Pods.
func FuzzAdmission(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","kind":{"version":"v1","kind":"Pod"},"object":` + pod + `}}`))
	f.Add([]byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"object":null,"oldObject":{}}}`))
	f.Add([]byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","kind":{"version":"v1","kind":"Pod"},"object":{"apiVersion":"v1","kind":"Pod","spec":{"overhead":{"cpu":"1e-999999999"}}}}}`))
	h := webhook.Mutate(func(_ context.Context, r *webhook.Request[*corev1.Pod]) error {
		r.Object.Labels = map[string]string{"a": "b"}
		return nil
	})
	var kept hostile.Kept
	f.Fuzz(func(t *testing.T, body []byte) {
		kept.Nothing(t)
		answered(t, h, body)
	})
}

// FuzzConversion sends what may be a conversion review to a conversion of two versions.
func FuzzConversion(f *testing.F) {
	group := func(v string) schema.GroupVersion { return schema.GroupVersion{Group: "example.com", Version: v} }
	c := webhook.NewConversion[*two](group("v2"), "Thing")
	webhook.Spoke(c, group("v1"), func(_ context.Context, in *one, out *two) error {
		_, err := fmt.Sscan(in.Size, &out.Size)
		return err
	}, func(_ context.Context, in *two, out *one) error {
		out.Size = fmt.Sprint(in.Size)
		return nil
	})
	for _, object := range []string{`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"},"size":"1"}`, `{"apiVersion":"example.com/v2"}`, `null`, `7`, ``} {
		f.Add([]byte(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u","desiredAPIVersion":"example.com/v2","objects":[` + object + `]}}`))
	}
	f.Add([]byte(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"desiredAPIVersion":"a/b/c","objects":[{},{}]}}`))
	var kept hostile.Kept
	f.Fuzz(func(t *testing.T, body []byte) {
		kept.Nothing(t)
		answered(t, c, body)
	})
}

// Anyone who reaches the port can send a number that apimachinery would compute with for hours.
func TestAnAbsurdQuantityIsRefusedAtOnce(t *testing.T) {
	h := webhook.Validate(func(context.Context, *webhook.Request[*corev1.Pod]) error { return nil })
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", bytes.NewReader([]byte(
		`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","kind":{"version":"v1","kind":"Pod"},"object":{"apiVersion":"v1","kind":"Pod","spec":{"overhead":{"cpu":"1e-99999"}}}}}`))))
	require.Equal(t, http.StatusOK, w.Code)
	require.Contains(t, w.Body.String(), `"allowed":false`)
	require.Contains(t, w.Body.String(), "quantity with too many digits or too large an exponent")
}

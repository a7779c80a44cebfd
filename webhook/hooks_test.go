package webhook_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace-dev/millrace/serving"
	"github.com/millrace-dev/millrace/webhook"
)

// The API server refuses a patch that replaces the object by null, but its message does not name the
// webhook.
func TestAMutationToNilNamesTheWebhook(t *testing.T) {
	h := webhook.Mutate(func(_ context.Context, r *webhook.Request[*corev1.Pod]) error { r.Object = nil; return nil })
	response := ask(t, h, admissionv1.Create, pod, "null")
	require.False(t, response.Allowed)
	require.EqualValues(t, 500, response.Result.Code)
	require.Contains(t, response.Result.Message, "the webhook set Request.Object to nil")
}

// unwritable is a version that cannot be written.
type unwritable struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
}

func (o *unwritable) DeepCopyObject() k8sruntime.Object { c := *o; return &c }
func (o *unwritable) MarshalJSON() ([]byte, error)      { panic("boom") }

func TestAVersionThatCannotBeWrittenIsAFailureOfTheConversion(t *testing.T) {
	group := func(v string) schema.GroupVersion { return schema.GroupVersion{Group: "example.com", Version: v} }
	c := webhook.NewConversion[*two](group("v2"), "Thing")
	webhook.Spoke(c, group("v1"), func(context.Context, *unwritable, *two) error { return nil }, func(context.Context, *two, *unwritable) error { return nil })
	w := httptest.NewRecorder()
	c.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(
		`{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u","desiredAPIVersion":"example.com/v1","objects":[{"apiVersion":"example.com/v2","kind":"Thing","metadata":{"name":"a"}}]}}`)))
	require.Equal(t, http.StatusOK, w.Code)
	require.Contains(t, w.Body.String(), "the conversion panicked: boom")
}

// noted is an error as users write them, with a receiver that may be nil.
type noted struct{ why string }

func (e *noted) Error() string { return e.why }

// The most frequent mistake with errors is a nil pointer of their type. It is a panic of
// the user's: without an answer, a failurePolicy of Ignore would let the object in.
func TestAnErrorThatPanicsRefuses(t *testing.T) {
	group := func(v string) schema.GroupVersion { return schema.GroupVersion{Group: "example.com", Version: v} }
	for name, err := range map[string]error{"of apimachinery": (*apierrors.StatusError)(nil), "of one's own": (*noted)(nil)} {
		t.Run(name, func(t *testing.T) {
			validate := webhook.Validate(func(context.Context, *webhook.Request[*corev1.Pod]) error { return err })
			response := ask(t, validate, admissionv1.Create, pod, "null")
			require.False(t, response.Allowed)
			require.EqualValues(t, 500, response.Result.Code)
			require.Contains(t, response.Result.Message, ", which the webhook returned as an error, panicked: ")

			c := webhook.NewConversion[*two](group("v2"), "Thing")
			webhook.Spoke(c, group("v1"), func(context.Context, *one, *two) error { return err }, func(context.Context, *two, *one) error { return nil })
			w := httptest.NewRecorder()
			c.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(
				`{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u","desiredAPIVersion":"example.com/v2","objects":[{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"}}]}}`)))
			require.Equal(t, http.StatusOK, w.Code)
			require.Contains(t, w.Body.String(), `"status":"Failure"`)
		})
	}
}

// unmeasured has metrics for no path.
type unmeasured struct{}

func (unmeasured) Register(string) webhook.Metrics { return nil }

func TestMetricsMayOmitAPath(t *testing.T) {
	s, err := webhook.New(webhook.Options{TLS: &serving.TLS{}, Metrics: unmeasured{}})
	require.NoError(t, err)
	require.NotPanics(t, func() { s.Handle("/", http.NotFoundHandler()) })
}

package webhook_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http/httptest"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/webhook"
)

// A webhook is an http.Handler, so a test can ask it without a server.
func ExampleValidate() {
	hook := webhook.Validate(func(_ context.Context, r *webhook.Request[*corev1.Pod]) error {
		if r.Object.Labels["owner"] == "" {
			return errors.New("every pod needs a label owner")
		}
		return nil
	})
	review := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","operation":"CREATE",
		"kind":{"version":"v1","kind":"Pod"},"object":{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":"web-0"}}}}`
	req := httptest.NewRequest("POST", "/validate", strings.NewReader(review))
	req.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	hook.ServeHTTP(w, req)

	var answer admissionv1.AdmissionReview
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.Response.Allowed, answer.Response.Result.Message)
	// Output:
	// false every pod needs a label owner
}

package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire"
)

// Request is a request for admission of a write to an object.
type Request[T object.Object] struct {
	// AdmissionRequest includes the user, the operation, the resource and the dry-run flag.
	admissionv1.AdmissionRequest

	// Object is the new state, or nil for a deletion. The function may modify it. For a CONNECT request, it
	// contains the options, such as *corev1.PodExecOptions.
	Object T

	// OldObject is the current state, or nil for a creation or a CONNECT request.
	OldObject T

	warnings []string
}

// Warn adds a warning, which clients display whether or not the request is allowed. Limit warnings to
// 120 characters; the API server truncates longer ones.
func (r *Request[T]) Warn(format string, args ...any) {
	r.warnings = append(r.warnings, fmt.Sprintf(format, args...))
}

// Validate returns a handler that decides whether an object may be written. If check returns nil, the
// request is allowed; otherwise it is rejected with the error's text. A panic also rejects the request.
//
// The handler accepts the given kinds, or by default the kind registered for T in k8s.io/api. It rejects
// requests for other kinds, and requests that contain objects of other kinds, without calling check; see
// Guarantees in the package documentation. For custom types, and if T has several kinds, pass the kinds:
//
//	webhook.Validate(check, v1.GroupVersion.WithKind("Memcached"))
//
// Also pass the kinds for *unstructured.Unstructured and *metav1.PartialObjectMetadata. For these types,
// "*" matches any group, version or kind, as in the rules of a webhook configuration. Validate panics if
// it cannot determine the kind.
func Validate[T object.Object](check func(context.Context, *Request[T]) error, kinds ...object.GVK) http.Handler {
	mustBePointer[T]()
	mustHave(check != nil, "the function for Validate")
	return admit(mustHaveKinds(reflect.TypeFor[T](), kinds), false, func(ctx context.Context, r *Request[T]) (*admissionv1.AdmissionResponse, error) {
		return &admissionv1.AdmissionResponse{Allowed: true}, check(ctx, r)
	})
}

// Mutate returns a handler that calls change to modify Request.Object before it is written. It is not
// called for deletions. The response is a JSON patch (RFC 6902) with the modifications. If change fails,
// the request is rejected with the error's text. A panic also rejects the request. Kinds work as in
// [Validate].
func Mutate[T object.Object](change func(context.Context, *Request[T]) error, kinds ...object.GVK) http.Handler {
	mustBePointer[T]()
	mustHave(change != nil, "the function for Mutate")
	return admit(mustHaveKinds(reflect.TypeFor[T](), kinds), true, func(ctx context.Context, r *Request[T]) (*admissionv1.AdmissionResponse, error) {
		allowed := &admissionv1.AdmissionResponse{Allowed: true}
		if len(r.AdmissionRequest.Object.Raw) == 0 {
			return allowed, nil
		}
		before, err := marshal(r.Object)
		if err != nil {
			return nil, err
		}
		if err := change(ctx, r); err != nil {
			return nil, err
		}
		if v := reflect.ValueOf(r.Object); !v.IsValid() || v.IsNil() {
			return nil, apierrors.NewInternalError(errors.New("the webhook set Request.Object to nil; to reject the request, return an error"))
		}
		after, err := marshal(r.Object)
		if err != nil || bytes.Equal(before, after) {
			return allowed, err
		}
		patch, err := newPatch(r.AdmissionRequest.Object.Raw, before, after)
		if err != nil || len(patch) == 0 {
			return allowed, err
		}
		if allowed.Patch, err = marshal(patch); err != nil {
			return nil, err
		}
		allowed.PatchType = new(admissionv1.PatchTypeJSONPatch)
		return allowed, nil
	})
}

// admissionReview is the request part of an admissionv1.AdmissionReview.
type admissionReview struct {
	metav1.TypeMeta `json:",inline"`
	Request         *admissionRequest `json:"request"`

	of      reflect.Type // the Go type of the review's objects
	patches bool         // a patch is made of the object, for which it is decoded without a type too
}

type admissionRequest struct {
	admissionv1.AdmissionRequest
	User json.RawMessage `json:"userInfo"` // shadows the embedded UserInfo
}

func (r *admissionReview) weight() int64 {
	if r.Request == nil {
		return 0
	}
	weight := userWeight*int64(len(r.Request.User)) + wire.EstimateJSONMemory(r.Request.Object.Raw, r.of) + wire.EstimateJSONMemory(r.Request.OldObject.Raw, r.of)
	if r.patches {
		weight += wire.EstimateJSONMemory(r.Request.Object.Raw, reflect.TypeFor[*unstructured.Unstructured]())
	}
	return weight
}

func (r *admissionReview) unfold() error {
	if r.Request == nil {
		return nil
	}
	if err := checkUID(r.Request.UID); err != nil || len(r.Request.User) == 0 {
		return err
	}
	return kjson.UnmarshalCaseSensitivePreserveInts(r.Request.User, &r.Request.UserInfo)
}

// admit returns a handler that calls decide for reviews of the given kinds. If decide fails or panics, the
// request is rejected. patches means that decide calls newPatch.
func admit[T object.Object](of *kinds, patches bool, decide func(context.Context, *Request[T]) (*admissionv1.AdmissionResponse, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call := callOf(r.Context())
		review := admissionReview{of: reflect.TypeFor[T](), patches: patches}
		release, ok := read(w, r, maxAdmission, maxDecoded, call.admission, &review)
		if !ok {
			return
		}
		defer release()
		if !isWanted(w, review.TypeMeta, review.Request != nil, admissionv1.SchemeGroupVersion.WithKind("AdmissionReview")) {
			return
		}
		request := &Request[T]{AdmissionRequest: review.Request.AdmissionRequest}
		var response *admissionv1.AdmissionResponse
		refusal, why := call.refused("the webhook", http.StatusForbidden, metav1.StatusReasonForbidden, func() (err error) {
			if err = of.check(r.URL.Path, &request.AdmissionRequest); err == nil {
				response, err = decideOn(r.Context(), request, decide)
			}
			return err
		})
		if refusal != nil {
			response = &admissionv1.AdmissionResponse{Result: refusal}
			call.log.Debug("rejected", "operation", request.Operation, "kind", request.Kind.Kind,
				"namespace", request.Namespace, "name", request.Name, "user", request.UserInfo.Username, "reason", why)
			of.warn(call, why, "resource", fmt.Sprintf("%.100s", request.Resource.Resource), "subresource", fmt.Sprintf("%.100s", request.SubResource))
		}
		response.UID, response.Warnings = review.Request.UID, request.warnings
		answer(w, admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: response})
	})
}

func decideOn[T object.Object](ctx context.Context, r *Request[T], decide func(context.Context, *Request[T]) (*admissionv1.AdmissionResponse, error)) (*admissionv1.AdmissionResponse, error) {
	var err error
	kind := object.GVK(r.Kind)
	if r.Object, err = decode[T](r.AdmissionRequest.Object.Raw, kind); err != nil {
		return nil, err
	}
	if r.OldObject, err = decode[T](r.AdmissionRequest.OldObject.Raw, kind); err != nil {
		return nil, err
	}
	return decide(ctx, r)
}

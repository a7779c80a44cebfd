package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire"
)

// Conversion converts custom resource objects between versions, using version H as the hub:
//
//	c := webhook.NewConversion[*v2.Memcached](v2.GroupVersion) // of the kind Memcached
//	webhook.Spoke(c, v1.GroupVersion, v1ToV2, v2ToV1)
//	hooks.Handle("/convert", c)
//
// If a function returns an error or panics, the review fails with that error, and no object is converted.
//
// A conversion must be lossless: converting an object to another version and back must not change it. If
// a version lacks a field, store its data in an annotation.
type Conversion[H object.Object] struct {
	hub    schema.GroupVersion
	spokes map[schema.GroupVersion]spoke[H]
	conversionKinds
}

// spoke converts between JSON in one version and the hub.
type spoke[H object.Object] struct {
	of   reflect.Type // the Go type of the version's objects
	up   func(ctx context.Context, raw []byte, kind string) (H, error)
	down func(ctx context.Context, hub H) (any, error)
}

// NewConversion returns a conversion with one version, the hub. It converts objects of the given kinds
// and rejects others. The default is the kind named after the Go type H, such as Memcached. It panics if
// H is *unstructured.Unstructured and no kind is given.
func NewConversion[H object.Object](hub schema.GroupVersion, kinds ...string) *Conversion[H] {
	mustBePointer[H]()
	c := &Conversion[H]{hub: hub, spokes: map[schema.GroupVersion]spoke[H]{}}
	c.kinds, c.versions = mustHaveNames(reflect.TypeFor[H](), kinds), []schema.GroupVersion{hub}
	c.spokes[hub] = spoke[H]{
		of: reflect.TypeFor[H](),
		up: func(_ context.Context, raw []byte, kind string) (H, error) {
			return decode[H](raw, hub.WithKind(kind))
		},
		down: func(_ context.Context, h H) (any, error) { return h, nil },
	}
	return c
}

// Spoke adds a version. The functions up and down populate out from in. out's metadata is already set, but
// they may modify its labels and annotations. Call Spoke before the conversion is served. It panics if the
// version has already been added.
func Spoke[S, H object.Object](c *Conversion[H], version schema.GroupVersion, up func(ctx context.Context, in S, out H) error, down func(ctx context.Context, in H, out S) error) {
	mustBePointer[S]()
	mustHave(c != nil, "the Conversion for Spoke")
	mustHave(up != nil && down != nil, "one of the functions for Spoke")
	if _, known := c.spokes[version]; known {
		panic(fmt.Sprintf("webhook: %s was already added to this conversion", version))
	}
	c.versions = append(c.versions, version)
	c.spokes[version] = spoke[H]{
		of: reflect.TypeFor[S](),
		up: func(ctx context.Context, raw []byte, kind string) (out H, err error) {
			in, err := decode[S](raw, version.WithKind(kind))
			if err != nil {
				return out, err
			}
			if out, err = withMetadata[H](in, c.hub); err != nil {
				return out, err
			}
			return out, up(ctx, in, out)
		},
		down: func(ctx context.Context, in H) (any, error) {
			out, err := withMetadata[S](in, version)
			if err != nil {
				return nil, err
			}
			return out, down(ctx, in, out)
		},
	}
}

// withMetadata returns a new object with of's metadata and nothing else.
func withMetadata[T object.Object](of object.Object, version schema.GroupVersion) (T, error) {
	out := empty[T]()
	whole, err := marshal(of)
	if err != nil {
		return out, err
	}
	var head struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        json.RawMessage `json:"metadata"`
	}
	if err := json.Unmarshal(whole, &head); err != nil {
		return out, err
	}
	head.APIVersion = version.String()
	text, err := marshal(head)
	if err != nil {
		return out, err
	}
	return out, json.Unmarshal(text, out)
}

// conversionKinds contains a conversion's kinds and versions.
type conversionKinds struct {
	kinds    []string
	versions []schema.GroupVersion
	wrong
}

// check returns the kinds of the objects in a review. It fails if the conversion does not support all of
// them.
func (c *conversionKinds) check(path string, objects []json.RawMessage) ([]metav1.TypeMeta, error) {
	all := make([]metav1.TypeMeta, len(objects))
	for n, o := range objects {
		if err := kjson.UnmarshalCaseSensitivePreserveInts(o, &all[n]); err != nil {
			return nil, err
		}
		kind := all[n].GroupVersionKind()
		if !slices.Contains(c.kinds, kind.Kind) || !slices.ContainsFunc(c.versions, func(v schema.GroupVersion) bool { return v.Group == kind.Group }) {
			return nil, wrongKind{fmt.Errorf("the conversion at %s is for %s in %s but received %s: change the path in the CustomResourceDefinition",
				path, strings.Join(c.kinds, ", "), c.versionNames(), quoted(kind))}
		}
	}
	return all, nil
}

func (c *conversionKinds) versionNames() string {
	names := make([]string, len(c.versions))
	for n, v := range c.versions {
		names[n] = v.String()
	}
	return strings.Join(names, ", ")
}

// conversionReview is the request part of a ConversionReview (apiextensions.k8s.io/v1), whose module has
// too many dependencies. See
// https://kubernetes.io/docs/reference/kubernetes-api/extend-resources/custom-resource-definition-v1/
type conversionReview struct {
	metav1.TypeMeta `json:",inline"`
	Request         *conversionRequest `json:"request"`
}

type conversionRequest struct {
	UID               types.UID       `json:"uid"`
	DesiredAPIVersion string          `json:"desiredAPIVersion"`
	Objects           json.RawMessage `json:"objects"`

	objects []json.RawMessage // set by unfold
	taken   int64             // reserved from the budget for the results
}

func (r *conversionReview) weight() int64 {
	if r.Request == nil {
		return 0
	}
	return objectWeight * elements(r.Request.Objects)
}

func (r *conversionReview) unfold() error {
	if r.Request == nil {
		return nil
	}
	if err := checkUID(r.Request.UID); err != nil || len(r.Request.Objects) == 0 {
		return err
	}
	return json.Unmarshal(r.Request.Objects, &r.Request.objects)
}

// conversionAnswer is the response part of a ConversionReview.
type conversionAnswer struct {
	metav1.TypeMeta `json:",inline"`
	Response        *conversionResponse `json:"response"`
}

type conversionResponse struct {
	UID              types.UID     `json:"uid"`
	ConvertedObjects []any         `json:"convertedObjects"`
	Result           metav1.Status `json:"result"`
}

func (c *Conversion[H]) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	call := callOf(r.Context())
	var review conversionReview
	release, ok := read(w, r, maxConversion, maxConversion, call.conversion, &review)
	if !ok {
		return
	}
	defer release()
	if !isWanted(w, review.TypeMeta, review.Request != nil, object.GVK{Group: "apiextensions.k8s.io", Version: "v1", Kind: "ConversionReview"}) {
		return
	}
	defer func() { call.conversion.give(review.Request.taken) }()
	response := &conversionResponse{UID: review.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
	refusal, why := call.refused("the conversion", http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, func() (err error) {
		response.ConvertedObjects, err = c.convert(r.Context(), r.URL.Path, review.Request)
		return err
	})
	if refusal != nil {
		response.ConvertedObjects, response.Result = nil, *refusal
		call.log.Debug("not converted", "to", review.Request.DesiredAPIVersion, "reason", why)
		c.warn(call, why)
	}
	answer(w, conversionAnswer{TypeMeta: review.TypeMeta, Response: response})
}

// convert converts all objects, or none if any conversion fails.
func (c *Conversion[H]) convert(ctx context.Context, path string, r *conversionRequest) ([]any, error) {
	all, err := c.check(path, r.objects)
	if err != nil {
		return nil, err
	}
	to, err := c.spoke(r.DesiredAPIVersion)
	if err != nil {
		return nil, err
	}
	converted := make([]any, len(r.objects))
	for n, o := range r.objects {
		is := all[n]
		if is.APIVersion == r.DesiredAPIVersion {
			converted[n] = o
			continue
		}
		from, err := c.spoke(is.APIVersion)
		if err != nil {
			return nil, err
		}
		wanted := schema.FromAPIVersionAndKind(r.DesiredAPIVersion, is.Kind)
		text, err := through(ctx, o, from, to, wanted)
		if err == nil {
			err = sameObject(o, text)
		}
		if err == nil {
			err = r.take(callOf(ctx).conversion, int64(len(text)))
		}
		if err != nil {
			return nil, fmt.Errorf("convert %s from %s to %s: %w", is.Kind, is.APIVersion, r.DesiredAPIVersion, err)
		}
		converted[n] = text
	}
	return converted, nil
}

// take reserves budget for a result until the response has been sent.
func (r *conversionRequest) take(from *budget, bytes int64) error {
	if !from.take(bytes) {
		return errors.New("not enough memory left for the results: try again later, or with fewer objects")
	}
	r.taken += bytes
	return nil
}

// through converts one object. While doing so, it reserves budget for the object's decoded size.
func through[H object.Object](ctx context.Context, raw []byte, from, to spoke[H], kind object.GVK) (json.RawMessage, error) {
	weight, held := wire.EstimateJSONMemory(raw, from.of), callOf(ctx).conversion
	if weight > maxDecoded {
		return nil, fmt.Errorf("the decoded object is larger than %d bytes", maxDecoded)
	}
	if !held.take(weight) {
		return nil, errFull
	}
	defer held.give(weight)
	hub, err := from.up(ctx, raw, kind.Kind)
	if err != nil {
		return nil, err
	}
	text, err := to.down(ctx, hub)
	if err != nil {
		return nil, err
	}
	return written(text, kind) // encode here so that panics in the type's methods are attributed to it
}

// sameObject fails if the result's identity differs from the original's. The API server would reject the
// entire response, with less detail.
func sameObject(before, after []byte) error {
	type identity struct {
		Metadata struct {
			Namespace string    `json:"namespace"`
			Name      string    `json:"name"`
			UID       types.UID `json:"uid"`
		} `json:"metadata"`
	}
	var was, is identity
	if err := kjson.UnmarshalCaseSensitivePreserveInts(before, &was); err != nil {
		return err
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(after, &is); err != nil {
		return err
	}
	if was != is {
		return fmt.Errorf("the result is a different object: it has namespace %q, name %q and UID %q, but the original has %q, %q and %q: keep the metadata that is already set in out",
			is.Metadata.Namespace, is.Metadata.Name, is.Metadata.UID, was.Metadata.Namespace, was.Metadata.Name, was.Metadata.UID)
	}
	return nil
}

// written encodes a result as JSON. The result must have the given kind.
func written(value any, kind object.GVK) (json.RawMessage, error) {
	text, err := marshal(value)
	switch {
	case err != nil:
		return nil, err
	case string(text) == "null":
		return nil, errors.New("the result is nil")
	}
	if _, err := wire.UnmarshalJSON[*metav1.PartialObjectMetadata](text, kind); err != nil {
		return nil, fmt.Errorf("the result has the wrong kind: %w: keep the apiVersion and kind that are already set in out", err)
	}
	return text, nil
}

func (c *Conversion[H]) spoke(apiVersion string) (spoke[H], error) {
	if version, err := schema.ParseGroupVersion(apiVersion); err == nil {
		if s, known := c.spokes[version]; known {
			return s, nil
		}
	}
	return spoke[H]{}, fmt.Errorf("no conversion is registered for %.100s, only for %s: call Spoke for it", apiVersion, c.versionNames())
}

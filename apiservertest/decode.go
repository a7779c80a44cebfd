package apiservertest

import (
	"bytes"
	"fmt"
	"io"
	"mime"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	internalscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/millrace-dev/millrace/object"
)

// maxBody is the maximum size of a request body, as on a real server.
const maxBody = 3 << 20

// unmarshaler is implemented by API types with generated protobuf code.
type unmarshaler interface{ Unmarshal([]byte) error }

func (c *call) body() ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(c.r.Body, maxBody+1))
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("read the body: %v", err))
	}
	if len(body) > maxBody {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", maxBody))
	}
	return body, nil
}

// bodyType returns the media type of the request body, JSON by default.
func (c *call) bodyType() string {
	header := c.r.Header.Get("Content-Type")
	if header == "" {
		return typeJSON
	}
	mediaType, _, err := mime.ParseMediaType(header)
	if err != nil {
		return header
	}
	return mediaType
}

// bodyObject decodes the object in a create or update request.
func (c *call) bodyObject() (object.Object, error) {
	obj := c.coll.New()
	return obj, c.bodyOf(c.coll.GVK(), obj)
}

// bodyOf decodes a body of the given kind into obj and validates the create or update options.
func (c *call) bodyOf(kind object.GVK, obj object.Object) error {
	body, err := c.body()
	if err != nil {
		return err
	}
	if err := c.checkWriteOptions(); err != nil {
		return err
	}
	if err := c.decode(c.bodyType(), body, obj); err != nil {
		return err
	}
	if is := obj.GetObjectKind().GroupVersionKind(); !is.Empty() && is != kind {
		return apierrors.NewBadRequest(fmt.Sprintf(
			"the API version in the data (%s, Kind=%s) does not match the expected API version (%s, Kind=%s)",
			is.GroupVersion(), is.Kind, kind.GroupVersion(), kind.Kind))
	}
	return nil
}

// decode decodes body into obj.
func (c *call) decode(mediaType string, body []byte, obj runtime.Object) error {
	switch mediaType {
	case typeYAML:
		converted, err := yaml.YAMLToJSON(body)
		if err != nil {
			return apierrors.NewBadRequest(fmt.Sprintf("error converting YAML to JSON: %v", err))
		}
		return c.decodeJSON(converted, obj)
	case typeJSON:
		return c.decodeJSON(body, obj)
	case typeProto:
		if into, ok := obj.(unmarshaler); ok {
			return decodeProto(body, obj, into)
		}
	}
	return unsupportedMediaType("the body of the request was in an unknown format - accepted media types include: " +
		typeJSON + ", " + typeYAML + ", " + typeProto)
}

// decodeJSON decodes body into obj. Names of fields are case-sensitive, and a Go type rejects unknown ones if the
// request asks for strict validation.
func (c *call) decodeJSON(body []byte, obj runtime.Object) error {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		err := u.UnmarshalJSON(body)
		if err == nil { // the metadata must fit the Go type, too
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &metav1.PartialObjectMetadata{})
		}
		if err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
		return nil
	}
	unknown, err := kjson.UnmarshalStrict(body, obj)
	if err == nil && len(unknown) > 0 && c.r.URL.Query().Get("fieldValidation") == metav1.FieldValidationStrict {
		err = runtime.NewStrictDecodingError(unknown)
	}
	if err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("the body cannot be handled as a %T: %v", obj, err))
	}
	return nil
}

func decodeProto(body []byte, obj runtime.Object, into unmarshaler) error {
	raw, found := bytes.CutPrefix(body, protoMagic)
	var unknown runtime.Unknown
	if !found {
		return apierrors.NewBadRequest("provided data does not appear to be a protobuf message, expected prefix 6b387300")
	}
	if err := unknown.Unmarshal(raw); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if err := into.Unmarshal(unknown.Raw); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	obj.GetObjectKind().SetGroupVersionKind(unknown.GroupVersionKind())
	return nil
}

// queryOptions decodes the query into opts.
func (c *call) queryOptions(opts runtime.Object) error {
	if err := internalscheme.ParameterCodec.DecodeParameters(c.r.URL.Query(), metav1.SchemeGroupVersion, opts); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}

// invalidOptions returns an error if errs is not empty.
func invalidOptions(kind string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: kind}, "", errs)
}

// checkWriteOptions validates create or update options, which have the same fields.
func (c *call) checkWriteOptions() error {
	var opts metav1.CreateOptions
	if err := c.queryOptions(&opts); err != nil {
		return err
	}
	kind := "CreateOptions"
	if c.verb == "update" {
		kind = "UpdateOptions"
	}
	return invalidOptions(kind, validation.ValidateCreateOptions(&opts))
}

func (c *call) checkPatchOptions(kind types.PatchType) error {
	var opts metav1.PatchOptions
	if err := c.queryOptions(&opts); err != nil {
		return err
	}
	return invalidOptions("PatchOptions", validation.ValidatePatchOptions(&opts, kind))
}

func checkDeleteOptions(opts *metav1.DeleteOptions) error {
	return invalidOptions("DeleteOptions", validation.ValidateDeleteOptions(opts))
}

// deleteOptions decodes delete options from the body, or from the query if there is no body.
func (c *call) deleteOptions() (*metav1.DeleteOptions, error) {
	body, err := c.body()
	if err != nil {
		return nil, err
	}
	opts := &metav1.DeleteOptions{}
	if len(body) > 0 {
		err = c.decode(c.bodyType(), body, opts)
	} else {
		err = c.queryOptions(opts)
	}
	if err != nil {
		return nil, err
	}
	return opts, checkDeleteOptions(opts)
}

package object

import (
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GVK is the group, version and kind of an API type.
type GVK = schema.GroupVersionKind

// GVR is the group, version and resource name used in API paths.
type GVR = schema.GroupVersionResource

// IsBuiltin reports whether t is a built-in API type, that is, a struct in k8s.io/api. Built-in types
// always use the kind plus "List" as their list kind and are available as protobuf; neither holds for
// custom resources.
func IsBuiltin(t reflect.Type) bool { return strings.HasPrefix(t.PkgPath(), "k8s.io/api/") }

// ParseResourceArg parses a resource as kubectl users type it: TYPE[.VERSION][.GROUP], for example
// "pods", "deployments.apps" or "deployments.v1.apps". "pods.v1." refers to the core group. A component
// that looks like a version (v1, v2beta1) is parsed as one. Missing components are left empty. TYPE may
// be a plural, singular or short resource name, or a kind; use a RESTMapper to resolve it.
func ParseResourceArg(arg string) (GVR, error) {
	resource, rest, dotted := strings.Cut(arg, ".")
	first, group, _ := strings.Cut(rest, ".")
	if resource == "" || dotted && first == "" || strings.HasSuffix(group, ".") || strings.ContainsAny(arg, "/ ") {
		return GVR{}, fmt.Errorf("resource %q: want TYPE[.VERSION][.GROUP], for example \"pods\" or \"deployments.v1.apps\"", arg)
	}
	if isVersion(first) {
		return GVR{Group: group, Version: first, Resource: resource}, nil
	}
	if strings.HasSuffix(rest, ".") {
		return GVR{}, fmt.Errorf("resource %q: the group ends with a dot", arg)
	}
	return GVR{Group: rest, Resource: resource}, nil
}

// isVersion reports whether s looks like a Kubernetes API version: v1, v2beta1, v1alpha3.
func isVersion(s string) bool {
	rest, ok := strings.CutPrefix(s, "v")
	if !ok {
		return false
	}
	major := strings.TrimLeft(rest, "0123456789")
	if len(major) == len(rest) {
		return false
	}
	if major == "" {
		return true
	}
	for _, stage := range []string{"alpha", "beta"} {
		if minor, ok := strings.CutPrefix(major, stage); ok {
			return minor != "" && strings.Trim(minor, "0123456789") == ""
		}
	}
	return false
}

// ResourceName formats gvr as kubectl does: "pods", "deployments.apps". The version is omitted because
// it rarely matters in an error message.
func ResourceName(gvr GVR) string {
	return gvr.GroupResource().String()
}

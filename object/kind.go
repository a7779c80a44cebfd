package object

import (
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GVK is the group, version and kind of a type.
type GVK = schema.GroupVersionKind

// GVR is the group, version and resource under which objects are served.
type GVR = schema.GroupVersionResource

// IsBuiltin reports whether t is one of Kubernetes' own API types, a struct of k8s.io/api. The list kind
// of such a type is always its kind with "List" appended, and API servers serve it as protobuf. Neither
// is true of custom resources.
func IsBuiltin(t reflect.Type) bool { return strings.HasPrefix(t.PkgPath(), "k8s.io/api/") }

// ParseResourceArg parses a resource as kubectl users type it: TYPE[.VERSION][.GROUP], for example
// "pods", "deployments.apps" or "deployments.v1.apps". "pods.v1." means the core group. The version
// is recognized by its form (v1, v2beta1). Missing parts are empty. TYPE may be a resource, a
// singular, a short name or a kind, which a RESTMapper resolves.
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
		return GVR{}, fmt.Errorf("resource %q: the group ends in a dot", arg)
	}
	return GVR{Group: rest, Resource: resource}, nil
}

// isVersion reports whether s has the form of a Kubernetes API version: v1,
// v2beta1, v1alpha3.
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

// ResourceName formats gvr as kubectl does: "pods", "deployments.apps". It omits the version, because
// people who read failures think in resources.
func ResourceName(gvr GVR) string {
	return gvr.GroupResource().String()
}

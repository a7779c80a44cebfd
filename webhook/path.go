package webhook

import (
	"strings"

	"github.com/millrace-dev/millrace/object"
)

// ValidatePath returns the path of a kind's validating webhook, as in kubebuilder projects:
// /validate-GROUP-VERSION-KIND, with dashes instead of dots in the group and the kind in lower case,
// such as "/validate-apps-v1-deployment" or, for the core group, "/validate--v1-pod".
func ValidatePath(kind object.GVK) string { return path("validate", kind) }

// MutatePath returns the path of a kind's mutating webhook: /mutate-GROUP-VERSION-KIND, in the same form
// as [ValidatePath].
func MutatePath(kind object.GVK) string { return path("mutate", kind) }

func path(verb string, kind object.GVK) string {
	return "/" + verb + "-" + strings.ReplaceAll(kind.Group, ".", "-") + "-" + kind.Version + "-" + strings.ToLower(kind.Kind)
}

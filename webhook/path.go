package webhook

import (
	"strings"

	"github.com/millrace-dev/millrace/object"
)

// ValidatePath returns the path at which kubebuilder's projects serve the validating webhook of a kind:
// /validate-GROUP-VERSION-KIND, with dashes for the dots of the group and a kind in lower case, such as
// "/validate-apps-v1-deployment" and, of the group without a name, "/validate--v1-pod".
func ValidatePath(kind object.GVK) string { return path("validate", kind) }

// MutatePath is [ValidatePath] for a mutating webhook: /mutate-GROUP-VERSION-KIND.
func MutatePath(kind object.GVK) string { return path("mutate", kind) }

func path(verb string, kind object.GVK) string {
	return "/" + verb + "-" + strings.ReplaceAll(kind.Group, ".", "-") + "-" + kind.Version + "-" + strings.ToLower(kind.Kind)
}

package cluster

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
)

// namespacePatience is the timeout for checking that a namespace exists. The check is just a courtesy.
const namespacePatience = 3 * time.Second

// DoubtNamespace prints a warning if the target's namespace does not exist, since the server then
// returns an empty list instead of an error. It prints nothing if the user is not allowed to read
// namespaces.
func (t Target) DoubtNamespace(ctx context.Context, c *terminal.Console) {
	if t.Namespace == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, namespacePatience)
	defer cancel()
	namespaces := rest.ResourceForKind[*metav1.PartialObjectMetadata](t.Client, corev1.SchemeGroupVersion.WithKind("Namespace"))
	_, err := namespaces.Get(ctx, object.Key{Name: t.Namespace}, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		c.Trouble(time.Now(), "%-12s  %s does not exist (yet): check -n; -A shows all namespaces", "namespace", t.Namespace)
	}
}

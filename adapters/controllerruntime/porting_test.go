package controllerruntime_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// The operator before it is ported, as docs/porting.md shows it. It has to compile.
var _ = addGreeter

type Greeter struct{ client.Client }

func (g *Greeter) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var ns corev1.Namespace
	if err := g.Get(ctx, req.NamespacedName, &ns); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "greeting"}}
	_, err := controllerutil.CreateOrUpdate(ctx, g, m, func() error {
		m.Data = map[string]string{"text": "hello " + ns.Labels["greet"]}
		return controllerutil.SetControllerReference(&ns, m, g.Scheme())
	})
	return ctrl.Result{RequeueAfter: time.Hour}, err
}

func addGreeter(m ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(m).
		For(&corev1.Namespace{}, builder.WithPredicates(predicate.LabelChangedPredicate{})).
		Owns(&corev1.ConfigMap{}).
		Complete(&Greeter{m.GetClient()})
}

// The page on porting shows the code above, line for line.
func TestPortingGuideShowsAnOperator(t *testing.T) {
	page, err := os.ReadFile("../../docs/porting.md")
	require.NoError(t, err)
	source, err := os.ReadFile("porting_test.go")
	require.NoError(t, err)
	_, after, found := strings.Cut(string(page), "```go\n")
	require.True(t, found)
	block, _, _ := strings.Cut(after, "```")
	require.Contains(t, string(source), "\n"+block)
}

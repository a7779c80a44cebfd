package metrics_test

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/metrics"
	"github.com/millrace-dev/millrace/sharedinformer"
)

func counters(t *testing.T, r *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	require.NoError(t, err)
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if m.GetCounter() == nil {
				continue
			}
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += "," + l.GetName() + "=" + l.GetValue()
			}
			all[name] = m.GetCounter().GetValue()
		}
	}
	return all
}

// A counter that falls without its series ending looks like a restart to Prometheus.
func TestCountersOfInformersDoNotFall(t *testing.T) {
	for name, leave := range map[string]func(*factory.Factory, *sharedinformer.Registration) error{
		"when a namespace leaves": func(f *factory.Factory, _ *sharedinformer.Registration) error {
			return f.SetNamespaces([]string{"mail", "shop"})
		},
		"when one of two handlers added in a loop leaves": func(_ *factory.Factory, r *sharedinformer.Registration) error {
			r.Close()
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			controllertest.Run(t, func(e *controllertest.Env) {
				f := factory.New(e.Client, factory.Options{Namespaces: []string{"bank", "mail", "shop"}})
				pods := factory.Informer[*corev1.Pod](f)
				registry := prometheus.NewRegistry()
				require.NoError(e, registry.Register(metrics.NewInformers(f, metrics.InformerOptions{})))
				nothing := sharedinformer.HandlerFunc[*corev1.Pod](func(context.Context, sharedinformer.Event[*corev1.Pod]) error { return nil })
				var handlers []*sharedinformer.Registration
				for range 2 {
					handlers = append(handlers, pods.AddHandlerWith(nothing, sharedinformer.HandlerOptions{Name: "tenant"}))
				}
				ctx, cancel := context.WithCancel(e.Context())
				f.Start(ctx)
				require.NoError(e, f.WaitForSync(ctx))
				for _, namespace := range []string{"bank", "mail", "shop"} {
					controllertest.Put(e, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p"}})
				}
				e.Settle(time.Second)
				before := counters(t, registry)
				require.NoError(e, leave(f, handlers[0]))
				e.Settle(time.Minute)
				for series, now := range counters(t, registry) {
					if was, here := before[series]; here && now < was {
						t.Errorf("%s fell from %v to %v", series, was, now)
					}
				}
				cancel()
				f.Wait()
			})
		})
	}
}

package main

import (
	"context"
	_ "embed"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	v1 "github.com/millrace-dev/millrace/examples/memcached/api/v1"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/webhook"
)

//go:embed crd.yaml
var definition []byte

// install installs the Memcached CRD and registers a webhook at our listen address. If the API server
// cannot reach the webhook, objects are not validated. In production, use manifests instead, with a
// Service, a certificate from a Secret, and a failure policy of Fail.
func install(ctx context.Context, m *manager.Manager) error {
	client := m.Client()
	apply := metav1.ApplyOptions{FieldManager: "memcached-operator", Force: true}
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(definition, &crd.Object); err != nil {
		return fmt.Errorf("crd.yaml: %w", err)
	}
	if _, err := rest.ResourceForKind[*unstructured.Unstructured](client, crd.GroupVersionKind()).Apply(ctx, crd, apply); err != nil {
		return err
	}
	hooks, err := m.WebhookServer()
	if err != nil {
		return err
	}
	if err := hooks.Listen(); err != nil {
		return err
	}
	url := "https://" + hooks.Addr().String() + webhook.ValidatePath(v1.GroupVersion.WithKind("Memcached"))
	_, err = rest.ResourceFor[*admissionregistrationv1.ValidatingWebhookConfiguration](client).Apply(ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "memcacheds." + v1.GroupVersion.Group},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "validate." + v1.GroupVersion.Group, AdmissionReviewVersions: []string{"v1"},
			SideEffects: new(admissionregistrationv1.SideEffectClassNone), FailurePolicy: new(admissionregistrationv1.Ignore), TimeoutSeconds: new(int32(2)),
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: hooks.SelfSigned()},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{v1.GroupVersion.Group}, APIVersions: []string{v1.GroupVersion.Version}, Resources: []string{"memcacheds"}},
			}},
		}},
	}, apply)
	return err
}

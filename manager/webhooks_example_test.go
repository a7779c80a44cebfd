package manager_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/serving"
	"github.com/millrace-dev/millrace/webhook"
)

// Webhooks that require an owner label on each Pod, and give Pods a label.
func ExampleWebhookFor() {
	validate := func(_ context.Context, r *webhook.Request[*corev1.Pod]) error {
		if r.Object != nil && r.Object.Labels["owner"] == "" {
			return errors.New("every pod needs a label owner")
		}
		return nil
	}
	setDefaults := func(_ context.Context, r *webhook.Request[*corev1.Pod]) error {
		r.Object.Spec.EnableServiceLinks = new(false)
		return nil
	}

	cfg := &config.Config{Host: "https://127.0.0.1:6443"} // config.Load() in a program
	m, err := manager.New(cfg, manager.Options{
		Webhooks: webhook.Options{TLS: &serving.TLS{}}, // CertDir in a cluster
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := manager.WebhookFor[*corev1.Pod](m).Validate(validate).Default(setDefaults).Complete(); err != nil {
		log.Fatal(err)
	}
	kind := corev1.SchemeGroupVersion.WithKind("Pod")
	fmt.Println(webhook.ValidatePath(kind), webhook.MutatePath(kind))
	// Output:
	// /validate--v1-pod /mutate--v1-pod
}

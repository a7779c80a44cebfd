// Command informer prints the events for a cluster's Pods.
package main

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/signal"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/scheme"
	"github.com/millrace-dev/millrace/sharedinformer"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	cfg, err := config.Load() // KUBECONFIG, ~/.kube/config or in-cluster
	if err != nil {
		log.Fatal(err)
	}
	client, err := rest.NewClient(cfg, scheme.New())
	if err != nil {
		log.Fatal(err)
	}
	f := factory.New(client, factory.Options{Logger: slog.Default()})

	pods := factory.Informer[*corev1.Pod](f)
	byNode := sharedinformer.AddIndex(pods, "node", func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
	pods.AddHandler(sharedinformer.HandlerFunc[*corev1.Pod](func(_ context.Context, e sharedinformer.Event[*corev1.Pod]) error {
		fmt.Println(e.Type, e.Object.Namespace, e.Object.Name, e.Object.Status.Phase) // "add shop web-0 Running"
		return nil
	}))

	f.Start(ctx)
	if err := f.WaitForSync(ctx); err != nil {
		log.Fatal(err) // "not synced: pods: list: forbidden: ... (7 attempts, last 2s ago); BackingOff for 1s"
	}
	for p := range byNode.Get("node-1") { // iter.Seq, nothing copied
		fmt.Println("on node-1:", p.Name)
	}
	<-ctx.Done()
	f.Wait()
}

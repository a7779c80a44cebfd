package manager_test

import (
	"context"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/shard/membership"
)

// A controller that gives each namespace a greeting.
func ExampleControllerFor() {
	srv := apiservertest.New(apiservertest.Options{})
	defer srv.Close()
	endpoint, err := srv.Listen(apiservertest.ListenOptions{})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := srv.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}); err != nil {
		log.Fatal(err)
	}

	m, err := manager.New(&config.Config{Host: endpoint.URL}, manager.Options{}) // config.Load() in a program
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background()) // manager.SignalContext() in a program
	maps := manager.Client[*corev1.ConfigMap](m)
	err = manager.ControllerFor[*corev1.Namespace](m).Owns(maps).
		Complete(func(ctx context.Context, ns *corev1.Namespace) (controller.Result, error) {
			greeting := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "greeting"}}
			greeting.Data = map[string]string{"text": "hello " + ns.Name}
			made, err := maps.OwnedBy(ns).Apply(ctx, greeting, "greeter")
			if err != nil {
				return controller.Result{}, err
			}
			fmt.Println(made.Data["text"], "of", made.OwnerReferences[0].Kind, made.OwnerReferences[0].Name)
			cancel()
			return controller.Result{}, nil
		})
	if err != nil {
		log.Fatal(err)
	}
	if err := m.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// hello shop of Namespace shop
}

// Each replica works on its share of the Sites. Without Options.Sharding, one program works on all of
// them.
func ExampleBuilder_Sharded() {
	cfg := &config.Config{Host: "https://127.0.0.1:6443", Namespace: "shop"} // config.Load() in a program
	m, err := manager.New(cfg, manager.Options{Sharding: &membership.Options{Name: "greeter"}})
	if err != nil {
		log.Fatal(err)
	}
	maps := manager.Client[*corev1.ConfigMap](m)
	err = manager.ControllerFor[*corev1.Namespace](m).Sharded().Owns(maps).
		Complete(func(ctx context.Context, ns *corev1.Namespace) (controller.Result, error) {
			return controller.Result{}, nil
		})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(maps.Informer().Scope().Key)
	// Output:
	// controller owner
}

// Every change of a Namespace leads to a reconcile of the Pods in it.
func ExampleClient() {
	cfg := &config.Config{Host: "https://127.0.0.1:6443"} // config.Load() in a program
	m, err := manager.New(cfg, manager.Options{})
	if err != nil {
		log.Fatal(err)
	}
	pods, namespaces := manager.Client[*corev1.Pod](m), manager.Client[*corev1.Namespace](m)
	byNamespace := controller.AddIndex(pods, "namespace", func(p *corev1.Pod) []string { return []string{p.Namespace} })
	err = manager.ControllerFor[*corev1.Pod](m).
		Watches(controller.MapByIndex(namespaces, byNamespace, func(ns *corev1.Namespace) string { return ns.Name })).
		Complete(func(ctx context.Context, pod *corev1.Pod) (controller.Result, error) { return controller.Result{}, nil })
	fmt.Println(pods, err)
	// Output:
	// pods <nil>
}

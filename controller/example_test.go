package controller_test

import (
	"context"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/scheme"
)

// A controller without a manager, which labels every Namespace.
func Example() {
	srv := apiservertest.New(apiservertest.Options{})
	defer srv.Close()
	endpoint, err := srv.Listen(apiservertest.ListenOptions{})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := srv.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}); err != nil {
		log.Fatal(err)
	}
	client, err := rest.NewClient(&config.Config{Host: endpoint.URL}, scheme.New())
	if err != nil {
		log.Fatal(err)
	}
	f := factory.New(client, factory.Options{})
	ctx, cancel := context.WithCancel(context.Background())

	namespaces := controller.ClientFor[*corev1.Namespace](f)
	greet := func(ctx context.Context, ns *corev1.Namespace) (controller.Result, error) { // ns is a copy
		if ns.Name != "shop" || ns.Labels["greeted"] == "yes" {
			return controller.Result{}, nil
		}
		ns, err := controller.Patch(ctx, namespaces, ns, func(ns *corev1.Namespace) error {
			ns.Labels = map[string]string{"greeted": "yes"}
			return nil
		})
		if err != nil {
			return controller.Result{}, err
		}
		fmt.Println(ns.Name, ns.Labels["greeted"])
		cancel()
		return controller.Result{}, nil
	}
	c, err := controller.New("greeter", controller.Objects(namespaces, greet), controller.Options{})
	if err != nil {
		log.Fatal(err)
	}
	c.Watch(controller.For(namespaces))
	f.Start(ctx)
	_ = c.Run(ctx) // the error of ctx
	f.Wait()
	// Output:
	// shop yes
}

package controller_test

import (
	"context"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/object"
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

// A record outside of the cluster is removed before its namespace is deleted. In a reconcile, one call
// of Finalize at the beginning replaces the two calls.
func ExampleClient_Finalize() {
	srv := apiservertest.New(apiservertest.Options{})
	defer srv.Close()
	namespaces := controller.NewClient(nil, rest.ResourceFor[*corev1.Namespace](connect(srv)))
	removeRecord := func(_ context.Context, ns *corev1.Namespace) (done bool, err error) {
		fmt.Println("remove the record of", ns.Name)
		return true, nil
	}

	ctx := context.Background()
	ns, err := namespaces.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	if err != nil {
		log.Fatal(err)
	}
	if ns, err = namespaces.Finalize(ctx, ns, "example.com/record", removeRecord); err != nil {
		log.Fatal(err)
	}
	fmt.Println(ns.Finalizers)
	if err := namespaces.Delete(ctx, ns); err != nil {
		log.Fatal(err)
	}
	if ns, err = namespaces.Read(ctx, object.KeyOf(ns)); err != nil {
		log.Fatal(err)
	}
	if _, err = namespaces.Finalize(ctx, ns, "example.com/record", removeRecord); err != nil {
		log.Fatal(err)
	}
	_, err = namespaces.Read(ctx, object.KeyOf(ns))
	fmt.Println(apierrors.IsNotFound(err))
	// Output:
	// [example.com/record]
	// remove the record of shop
	// true
}

func ExampleSetCondition() {
	srv := apiservertest.New(apiservertest.Options{})
	defer srv.Close()
	budgets := controller.NewClient(nil, rest.ResourceFor[*policyv1.PodDisruptionBudget](connect(srv)))

	ctx := context.Background()
	budget, err := budgets.Create(ctx, &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}})
	if err != nil {
		log.Fatal(err)
	}
	computed := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Computed"}
	budget, err = controller.SetCondition(ctx, budgets, budget, computed)
	if err != nil {
		log.Fatal(err)
	}
	again, err := controller.SetCondition(ctx, budgets, budget, computed)
	fmt.Println(meta.IsStatusConditionTrue(budget.Status.Conditions, "Ready"), again == budget, err)
	// Output:
	// true true <nil>
}

// connect returns a client of a simulated server.
func connect(srv *apiservertest.Server) *rest.Client {
	endpoint, err := srv.Listen(apiservertest.ListenOptions{})
	if err != nil {
		log.Fatal(err)
	}
	client, err := rest.NewClient(&config.Config{Host: endpoint.URL}, scheme.New())
	if err != nil {
		log.Fatal(err)
	}
	return client
}

// The function changes a copy of the object from the cache or the server, or the object to create.
// Nothing is sent if it changes nothing.
func ExampleCreateOrUpdate() {
	srv := apiservertest.New(apiservertest.Options{})
	defer srv.Close()
	maps := controller.NewClient(nil, rest.ResourceFor[*corev1.ConfigMap](connect(srv)))
	ctx := context.Background()
	for _, text := range []string{"hello", "hello", "goodbye"} {
		greeting := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "greeting"}}
		greeting, did, err := controller.CreateOrUpdate(ctx, maps, greeting, func(m *corev1.ConfigMap) error {
			m.Data = map[string]string{"text": text}
			return nil
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(did, greeting.Data["text"])
	}
	// Output:
	// created hello
	// unchanged hello
	// updated goodbye
}

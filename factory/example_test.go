package factory_test

import (
	"context"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/scheme"
)

// Two informers of one type side by side: all Pods, and the metadata of those
// of one app in one namespace.
func Example() {
	srv := apiservertest.New(apiservertest.Options{})
	defer srv.Close()
	endpoint, err := srv.Listen(apiservertest.ListenOptions{})
	if err != nil {
		log.Fatal(err)
	}
	for _, name := range []string{"web-0", "db-0"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": name[:len(name)-2]}}}
		if _, err := srv.Create(pod); err != nil {
			log.Fatal(err)
		}
	}

	client, err := rest.NewClient(&config.Config{Host: endpoint.URL}, scheme.New())
	if err != nil {
		log.Fatal(err)
	}
	f := factory.New(client, factory.Options{})
	pods := factory.Informer[*corev1.Pod](f)
	web := factory.InformerWith(f, factory.For[*metav1.PartialObjectMetadata]{
		Kind:  corev1.SchemeGroupVersion.WithKind("Pod"),
		Scope: factory.Scope{Namespaces: []string{"shop"}, Labels: labels.SelectorFromSet(labels.Set{"app": "web"})},
	})

	ctx, cancel := context.WithCancel(context.Background())
	f.Start(ctx)
	if err := f.WaitForSync(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(pods.Cache().Len(), "pods")
	_, ok := web.Cache().Get(object.Key{Namespace: "shop", Name: "db-0"})
	fmt.Println(web.Name(), web.Cache().Len(), ok)

	cancel()
	f.Wait()
	// Output:
	// 2 pods
	// pods in namespace shop with labels app=web 1 false
}

// All callers of one type get the same informer, so each object is in memory once.
func ExampleInformer() {
	srv := apiservertest.New(apiservertest.Options{})
	defer srv.Close()
	endpoint, err := srv.Listen(apiservertest.ListenOptions{})
	if err != nil {
		log.Fatal(err)
	}
	client, err := rest.NewClient(&config.Config{Host: endpoint.URL}, scheme.New())
	if err != nil {
		log.Fatal(err)
	}
	f := factory.New(client, factory.Options{})
	pods := factory.Informer[*corev1.Pod](f)
	fmt.Println(pods == factory.Informer[*corev1.Pod](f))

	ctx, cancel := context.WithCancel(context.Background())
	f.Start(ctx) // also runs informers that are requested later
	if err := f.WaitForSync(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(pods.Cache().Len(), "pods")
	cancel()
	f.Wait()
	// Output:
	// true
	// 0 pods
}

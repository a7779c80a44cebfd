package rest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/discovery"
)

// server imitates an API server with two pods.
func server() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("watch") == "true" {
			io.WriteString(w, `{"type":"MODIFIED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"namespace":"shop","name":"web-1","resourceVersion":"43"}}}`)
			return
		}
		io.WriteString(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"42"},
			"items":[{"metadata":{"namespace":"shop","name":"web-1"}},{"metadata":{"namespace":"shop","name":"web-2"}}]}`)
	}))
}

var podsMapping = discovery.Mapping{
	Kind:       corev1.SchemeGroupVersion.WithKind("Pod"),
	Resource:   corev1.SchemeGroupVersion.WithResource("pods"),
	Namespaced: true,
}

// A list, and a watch that continues from it.
func Example() {
	s := server()
	defer s.Close()
	ctx := context.Background()
	client, err := rest.NewClient(&config.Config{Host: s.URL}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	pods := rest.ResourceForMapping[*corev1.Pod](client, podsMapping).Namespace("shop")

	list := pods.List(ctx, metav1.ListOptions{})
	for pod, err := range list.Items {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("listed", pod.Name)
	}
	events, err := pods.Watch(ctx, metav1.ListOptions{ResourceVersion: list.Meta.ResourceVersion})
	if err != nil {
		fmt.Println(err)
		return
	}
	for ev, err := range events {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(ev.Type, ev.Object.Name, ev.Object.ResourceVersion)
	}
	// Output:
	// listed web-1
	// listed web-2
	// MODIFIED web-1 43
}

// Objects of a kind without a Go type.
func ExampleResourceForMapping() {
	s := server()
	defer s.Close()
	client, err := rest.NewClient(&config.Config{Host: s.URL}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	pods := rest.ResourceForMapping[*unstructured.Unstructured](client, podsMapping)
	for pod, err := range pods.List(context.Background(), metav1.ListOptions{}).Items {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(pod.GetKind(), object.FormatKey(object.KeyOf(pod)))
	}
	// Output:
	// Pod shop/web-1
	// Pod shop/web-2
}

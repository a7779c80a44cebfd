package debug_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/scheme"
)

// A program exposes its state, and another one inspects it.
func Example() {
	client, err := rest.NewClient(&config.Config{Host: "http://127.0.0.1:8001"}, scheme.New())
	if err != nil {
		log.Fatal(err)
	}
	f := factory.New(client, factory.Options{})
	factory.Informer[*corev1.Pod](f)
	mux := http.NewServeMux()
	mux.Handle(debug.Path, debug.New(debug.Options{Informers: debug.Of(f)}))
	program := httptest.NewServer(mux)
	defer program.Close()

	status, err := debug.Attach(program.URL, http.DefaultClient).Status(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	for _, i := range status.Informers {
		fmt.Println(i.Reflector.Resource, i.Synced)
	}
	// Output:
	// pods false
}

package leaderelection_test

import (
	"context"
	"fmt"
	"log"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/leaderelection"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/scheme"
)

// Work that one process at a time does.
func Example() {
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
	elector, err := leaderelection.New(client, leaderelection.Options{Namespace: "shop", Name: "janitor", Identity: "me"})
	if err != nil {
		log.Fatal(err)
	}
	err = elector.Run(context.Background(), func(ctx context.Context) error {
		token, _ := leaderelection.Token(ctx)
		fmt.Println(elector.Status().Holder, "leads, in term", token)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// me leads, in term 1
}

package membership_test

import (
	"context"
	"fmt"
	"log"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/scheme"
	"github.com/millrace-dev/millrace/shard/membership"
)

// The only member of a group has all slots.
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
	group, err := membership.New(client, membership.Options{Namespace: "shop", Name: "carts", Slots: 8})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = group.Run(ctx) // the error of ctx
	}()
	for {
		slots, changed := group.Owned()
		if slots.Len() == 8 {
			break
		}
		<-changed
	}
	working, leave, err := group.Enter(ctx, 42) // the hash of an object
	fmt.Println(err, working.Err())
	leave()
	cancel()
	<-ended
	// Output:
	// <nil> <nil>
}

package serving_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"

	"github.com/millrace-dev/millrace/serving"
)

func Example() {
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	s, err := serving.New(serving.Options{Name: "hello", Address: "127.0.0.1:0", Handler: hello})
	if err != nil {
		log.Fatal(err)
	}
	if err := s.Listen(); err != nil { // reports early if the port is in use
		log.Fatal(err)
	}
	address := s.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()

	resp, err := http.Get("http://" + address)
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(body))
	cancel()
	fmt.Println(<-ended)
	// Output:
	// hello
	// <nil>
}

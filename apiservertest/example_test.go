package apiservertest_test

import (
	"fmt"
	"io"
	"log"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
)

func Example() {
	srv := apiservertest.New(apiservertest.Options{})
	defer srv.Close()
	endpoint, err := srv.Listen(apiservertest.ListenOptions{})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := srv.Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}); err != nil {
		log.Fatal(err)
	}
	srv.Faults().Add(apiservertest.Fault{
		Verb: "list", Resource: "nodes", Count: 1,
		Do: []apiservertest.Action{apiservertest.Fail{Code: 503, RetryAfter: "1"}},
	})
	for range 2 {
		resp, err := http.Get(endpoint.URL + "/api/v1/nodes")
		if err != nil {
			log.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			log.Fatal(err)
		}
		resp.Body.Close()
		fmt.Println(resp.Status)
	}
	fmt.Println("lists of nodes:", srv.Stats().Requests("list", "nodes"))
	// Output:
	// 503 Service Unavailable
	// 200 OK
	// lists of nodes: 2
}

package object_test

import (
	"fmt"
	"log"

	"github.com/millrace-dev/millrace/object"
)

func Example() {
	key, err := object.ParseKey("shop/web-0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(key.Namespace, key.Name)

	resource, err := object.ParseResourceArg("deployments.v1.apps")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(resource.Group, resource.Version, resource.Resource)

	order, err := object.CompareRV("99", "100") // as numbers
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(order < 0)
	// Output:
	// shop web-0
	// apps v1 deployments
	// true
}

package controllermanager_test

import (
	"fmt"
	"log"

	"github.com/millrace-dev/millrace/controllermanager"
	"github.com/millrace-dev/millrace/manager"
)

// The selection of the flag --controllers.
func ExampleRegistry_Select() {
	none := func(*controllermanager.Context) (manager.Runnable, error) { return nil, nil }
	registry, err := controllermanager.NewRegistry(
		controllermanager.Descriptor{Name: "replicaset-controller", Aliases: []string{"replicaset"}, New: none},
		controllermanager.Descriptor{Name: "deployment-controller", Aliases: []string{"deployment"}, New: none},
		controllermanager.Descriptor{Name: "janitor-controller", Aliases: []string{"janitor"}, DisabledByDefault: true, New: none},
	)
	if err != nil {
		log.Fatal(err)
	}
	for _, list := range []string{"*", "*,janitor,-deployment"} {
		chosen, err := registry.Select(list)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(list, chosen)
	}
	// Output:
	// * [replicaset-controller deployment-controller]
	// *,janitor,-deployment [replicaset-controller janitor-controller]
}

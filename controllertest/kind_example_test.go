package controllertest_test

import (
	"os"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/controllertest"
	v1 "github.com/millrace-dev/millrace/examples/memcached/api/v1"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/scheme"
)

// A kind of your own: the scheme must know its Go type, and the server its definition.
func ExampleRunWith() {
	testMemcached := func(t *testing.T) {
		kinds := scheme.New()
		if err := v1.AddToScheme(kinds); err != nil {
			t.Fatal(err)
		}
		manifest, err := os.ReadFile("crd.yaml")
		if err != nil {
			t.Fatal(err)
		}
		memcacheds, err := apiservertest.ReadDefinition(manifest)
		if err != nil {
			t.Fatal(err)
		}
		memcacheds.New = func() object.Object { return &v1.Memcached{} }

		controllertest.RunWith(t, controllertest.Options{
			Scheme: kinds,
			Server: apiservertest.Options{Resources: []apiservertest.Resource{memcacheds}},
		}, func(e *controllertest.Env) {
			e.Start( /* newController(e.Factory) */ )
			controllertest.Put(e, &v1.Memcached{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "carts"},
				Spec:       v1.MemcachedSpec{Size: 2},
			})
		})
	}
	_ = testMemcached // go test would run it
}

// A kind that appears while the controller runs, without a manifest.
func ExampleEnv() {
	test := func(e *controllertest.Env) {
		err := e.Server.AddResource(apiservertest.Resource{
			GVR:  v1.GroupVersion.WithResource("memcacheds"),
			Kind: "Memcached", Namespaced: true, Status: true, Generation: true,
			New: func() object.Object { return &v1.Memcached{} },
		})
		if err != nil {
			e.Fatal(err)
		}
	}
	_ = test // the body of controllertest.Run
}

package rest_test

import (
	"fmt"
	"log"

	"github.com/millrace-dev/millrace/rest"
)

func ExampleParseKubeconfig() {
	cfg, err := rest.ParseKubeconfig([]byte(`
apiVersion: v1
kind: Config
current-context: staging
clusters:
- name: staging
  cluster: {server: "https://staging.example.com:6443"}
contexts:
- name: staging
  context: {cluster: staging, user: robot, namespace: builds}
users:
- name: robot
  user: {token: not-to-be-seen}
`))
	if err != nil {
		log.Fatal(err)
	}
	cfg.UserAgent = "builder/1.0"
	fmt.Println(cfg)
	// Output: {Host:"https://staging.example.com:6443", Namespace:"builds", BearerToken:[redacted], UserAgent:"builder/1.0"}
}

func ExampleLoadConfig() {
	// As kubectl --context staging --namespace builds would.
	cfg, err := rest.LoadConfig(rest.LoadOptions{Context: "staging", Namespace: "builds"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(cfg.Host)
}
